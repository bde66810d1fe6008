from ci_daemon.language import job, pipeline


@pipeline("matrix-exclude")
def matrix_exclude() -> None:
    job(
        "test",
        image="python:${{ matrix.python }}",
        matrix={"python": ["3.11", "3.12"], "django": ["4.2", "5.1"], "exclude": [{"python": "3.11", "django": "5.1"}]},
        run="pip install django==${{ matrix.django }} && ./manage.py test",
    )
