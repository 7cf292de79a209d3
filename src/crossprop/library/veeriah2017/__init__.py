"""Veeriah, Zhang and Sutton (2017), "Crossprop: Learning Representations by Stochastic Meta-Gradient Descent in Neural
Networks": its experiments and its claims."""

from crossprop.library.paper import Paper
from crossprop.library.veeriah2017 import _clusters, _geoff, _mnist
from crossprop.library.veeriah2017.features import features_plan
from crossprop.library.veeriah2017.plans import geoff_plan, mnist_plan
from crossprop.library.veeriah2017.story import INTRO, LEADS, TERMS, headline

OWN = (*_geoff.OWN_CLAIMS, *_mnist.OWN_CLAIMS)
PAPER = Paper(
    source=(
        'Veeriah, Zhang and Sutton (2017), "Crossprop: learning representations by stochastic meta-gradient descent in '
        'neural networks"'
    ),
    title="Crossprop, reproduced",
    intro=INTRO,
    claims=(*_geoff.CLAIMS, *_mnist.CLAIMS, *_clusters.CLAIMS, *OWN),
    leads=LEADS,
    terms=TERMS,
    headline=headline,
    plans={"geoff": geoff_plan, "mnist": mnist_plan, "features": features_plan},
    own=[claim.id for claim in OWN],
)
