"""One hypothesis profile for everyone: no deadlines (machines are noisy), the same examples on every run."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "shadowmetric",
    deadline=None,
    max_examples=30,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("shadowmetric")
