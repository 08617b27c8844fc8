"""Everything that reproduces the paper: recipes, training, evaluation, results and tables."""
