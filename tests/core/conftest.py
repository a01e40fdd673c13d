"""How hard hypothesis tries: "ci" unless `--hypothesis-profile=quick` is given."""

from hypothesis import HealthCheck, settings

_SLOW_IS_FINE = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", max_examples=1500, stateful_step_count=50, **_SLOW_IS_FINE)
settings.register_profile("quick", max_examples=50, stateful_step_count=50, **_SLOW_IS_FINE)
settings.load_profile("ci")
