"""What is asked of a fitted model: numbers from arrays, without tables or text."""
