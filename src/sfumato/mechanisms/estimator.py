"""The conventions of a scikit-learn transformer, kept without loading scikit-learn until it is needed."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Self

__all__ = ["Estimator"]


class Estimator:
    """Parameters, tags and output as scikit-learn's own checks want them of a transformer.

    What scikit-learn draws (representations) or routes is what it would for an estimator of its own with the
    same parameters; it is loaded for that.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Parameters and what ``fit`` learns differ from class to class."""

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Return the names of the parameters of ``__init__``, sorted."""
        return sorted(name for name in inspect.signature(cls.__init__).parameters if name != "self")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with ``deep`` also those of parameters that are estimators."""
        values = {name: getattr(self, name) for name in self._get_param_names()}
        if deep:
            for name, value in list(values.items()):
                if hasattr(value, "get_params") and not isinstance(value, type):
                    values |= {f"{name}__{inner}": held for inner, held in value.get_params().items()}
        return values

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``name__inner`` sets a parameter of the estimator that ``name`` is."""
        known = self._get_param_names()
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, inside, inner = key.partition("__")
            if name not in known:
                # The sentence and the type are those of scikit-learn, whose tools catch them.
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {known!r}."
                )
            if inside:
                nested.setdefault(name, {})[inner] = value
            else:
                setattr(self, name, value)
        for name, values in nested.items():
            getattr(self, name).set_params(**values)
        return self

    def fit(self, X: Any, y: Any = None) -> Self:
        """See the class that has data to fit."""
        raise NotImplementedError

    def transform(self, X: Any) -> Any:
        """See the class that has data to transform."""
        raise NotImplementedError

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit to X, and return its transform."""
        return self.fit(X, y, **fit_params).transform(X)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
        )

    def _as_scikit(self) -> Any:
        """Return an estimator of scikit-learn with this one's name and parameters, to be shown."""
        from sklearn.base import BaseEstimator

        own = type(self)
        same = {"__init__": own.__init__, "__module__": own.__module__, "__doc__": own.__doc__}
        shown: Any = object.__new__(type(own.__name__, (BaseEstimator,), same))
        shown.__dict__.update(self.__dict__)
        return shown

    def get_metadata_routing(self) -> Any:
        """Return which metadata ``fit`` and ``transform`` take: none."""
        return self._as_scikit().get_metadata_routing()

    def _repr_html_(self) -> Any:
        return self._as_scikit()._repr_html_()

    def __repr__(self) -> str:
        return repr(self._as_scikit())
