"""The likelihood of one row: forms, links, integration and exact derivatives. No tables here."""
