"""The names of all recipes, so that they can be listed in less time than torch takes to be imported.

The recipes themselves are in `lab.recipes`, and a test holds these names to them.
"""

METHODS = "ga", "fa", "canonical", "ps"
FROM_HAAR = *METHODS, "from-haar"
GRAPHS = (
    *(f"{base}-{one}" for base in ("mlp", "gin-id") for one in (*METHODS[:-1], "ps-fixed-noise", "ps")),
    "gin",
    "gcn",
)
VITS = tuple(
    f"{size}-{start}" for size in ("vit-ti", "vit-s", "vit-b", "deit-ti") for start in ("scratch", "pretrained")
)
TEXTS = tuple(f"{model}-{start}" for model in ("galileo", "minilm") for start in ("scratch", "pretrained"))
MOLECULES = tuple(f"{one}-ps" for one in VITS)

BY_TASK: dict[str, tuple[str, ...]] = {
    "exp-classify": GRAPHS,
    "graph8c": (*GRAPHS, "gin-sum", "gcn-sum"),
    "exp": (*GRAPHS, "gin-sum", "gcn-sum"),
    "nbody": (*(f"{base}-{one}" for base in ("transformer", "gnn") for one in FROM_HAAR), "egnn"),
    "pattern": (*(f"{base}-{one}" for base in VITS for one in METHODS), *(f"{one}-ps" for one in TEXTS)),
    "peptides-func": MOLECULES,
    "peptides-struct": MOLECULES,
    "pcqm-contact": MOLECULES,
    "acetylacetone": tuple(f"transformer-{one}" for one in ("augmented", *METHODS, "quadrature")),
    "demo": ("mlp-ps", "mlp-ga", "mlp-canonical"),
}
RECIPE_NAMES = tuple(f"{task}/{one}" for task, rows in BY_TASK.items() for one in rows)
