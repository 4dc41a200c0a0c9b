# Reference values of penalised terms from mgcv.
# Usage: Rscript penalised.R FOLDER, with interviewers_n4000.csv in FOLDER; writes penalised_mgcv.csv
# and penalised_curves.csv into the working directory. R 4.2.2, mgcv 1.8-41.
library(mgcv)
folder <- commandArgs(trailingOnly = TRUE)[1]
d <- read.csv(file.path(folder, "interviewers_n4000.csv"))
d$interviewer <- factor(d$interviewer)
rows <- list()
put <- function(case, name, value) {
  rows[[length(rows) + 1]] <<- data.frame(case = case, name = name, value = unname(value))
}
curve <- list()
grid <- seq(-2.5, 2.5, by = 0.25)
describe <- function(case, b) {
  for (j in seq_along(b$sp)) put(case, paste0("sp_", j), b$sp[j])
  edf <- summary(b)$s.table[, "edf"]
  for (j in seq_along(edf)) put(case, paste0("edf_", j), edf[j])
  for (j in seq_len(b$nsdf)) {
    put(case, names(b$coefficients)[j], b$coefficients[j])
    put(case, paste0("se_", names(b$coefficients)[j]), sqrt(diag(b$Vp))[j])
  }
  put(case, "llf", sum(log(abs(1 - b$y - b$fitted.values))))
  put(case, "reml", -b$gcv.ubre)
}
outcome <- function(family) gam(y ~ s(x1, bs = "ps", k = 10) + x2, family = binomial(family),
                                data = d[d$s == 1, ], method = "REML",
                                knots = list(x1 = knots))
# Knots over the range of all rows, as in the package, not of the labelled ones.
range_all <- range(d$x1)
pad <- 0.001 * diff(range_all)
step <- (diff(range_all) + 2 * pad) / 7
knots <- range_all[1] - pad + step * (-3:10)
for (family in c("probit", "logit")) {
  b <- outcome(family)
  describe(paste0("outcome_", family), b)
  at <- data.frame(x1 = grid, x2 = 0)
  curve[[length(curve) + 1]] <- data.frame(
    case = paste0("outcome_", family), x1 = grid, index = predict(b, at))
}
b <- gam(s ~ s(x1, bs = "ps", k = 10) + x2 + z + s(interviewer, bs = "re"),
         family = binomial("probit"), data = d, method = "REML")
describe("selection", b)
v <- gam.vcomp(b)
put("selection", "sd", v["s(interviewer)", "std.dev"])
put("selection", "sd_lower", v["s(interviewer)", "lower"])
put("selection", "sd_upper", v["s(interviewer)", "upper"])
at <- data.frame(x1 = grid, x2 = 0, z = 0, interviewer = d$interviewer[1])
fitted <- predict(b, at, exclude = "s(interviewer)")
curve[[length(curve) + 1]] <- data.frame(case = "selection", x1 = grid, index = fitted)
b <- gam(s ~ s(x1, bs = "ps", k = 20) + z + s(interviewer, bs = "re"),
         family = binomial("probit"), data = d[1:600, ], method = "REML")
describe("selection_small", b)
write.csv(format(do.call(rbind, rows), digits = 10, trim = TRUE), "penalised_mgcv.csv", row.names = FALSE, quote = FALSE)
write.csv(format(do.call(rbind, curve), digits = 10, trim = TRUE), "penalised_curves.csv", row.names = FALSE, quote = FALSE)
