"""The names of all recipes, so that they can be listed in less time than torch takes to be imported.

The recipes themselves are in `lab.recipes`, and a test holds these names to them.
"""

METHODS = "ga", "fa", "canonical", "ps"
PARTICLES = *METHODS, "from-haar", "ga-motion", "ps-motion"
GRAPHS = (
    *(f"{base}-{method}" for base in ("mlp", "gin-id") for method in (*METHODS[:-1], "ps-fixed-noise", "ps")),
    "gin",
    "gcn",
)
VITS = tuple(
    f"{size}-{start}" for size in ("vit-ti", "vit-s", "vit-b", "deit-ti") for start in ("scratch", "pretrained")
)
TEXTS = tuple(f"{model}-{start}" for model in ("galileo", "minilm") for start in ("scratch", "pretrained"))
MOLECULES = tuple(f"{base}-ps" for base in VITS)

BY_TASK: dict[str, tuple[str, ...]] = {
    "exp-classify": GRAPHS,
    "graph8c": (*GRAPHS, "gin-sum", "gcn-sum"),
    "exp": (*GRAPHS, "gin-sum", "gcn-sum"),
    "nbody": (
        *(f"{base}-{method}" for base in ("transformer", "gnn") for method in PARTICLES),
        *("gnn-ps-best", "staged-gnn-ga", "staged-gnn-ps", "recurrent-gnn-ga", "recurrent-gnn-ps", "egnn"),
    ),
    "pattern": (*(f"{base}-{method}" for base in VITS for method in METHODS), *(f"{base}-ps" for base in TEXTS)),
    "peptides-func": MOLECULES,
    "peptides-struct": MOLECULES,
    "pcqm-contact": MOLECULES,
    "acetylacetone": tuple(f"transformer-{method}" for method in ("augmented", *METHODS, "quadrature")),
    "demo": ("mlp-ps", "mlp-ga", "mlp-canonical"),
}
RECIPE_NAMES = tuple(f"{task}/{row}" for task, rows in BY_TASK.items() for row in rows)
