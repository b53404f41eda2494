# One image for all processes; docker-compose.yml says which one runs.
FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements-bootstrap.lock requirements.lock pyproject.toml README.md LICENSE ./
RUN pip install --no-cache-dir --require-hashes -r requirements-bootstrap.lock \
    && python -m venv /opt/gangline \
    && uv pip install --python /opt/gangline/bin/python --no-cache --require-hashes \
       -r requirements.lock
COPY src src
RUN uv pip install --python /opt/gangline/bin/python --no-cache --no-deps --no-build-isolation .

FROM python:3.13-slim
RUN useradd --create-home gangline
COPY --from=build /opt/gangline /opt/gangline
ENV PATH=/opt/gangline/bin:$PATH
USER gangline
WORKDIR /tmp
ENTRYPOINT ["gangline"]
