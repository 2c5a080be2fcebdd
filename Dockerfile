# The command `wshard` with the pages of its app and the common extras, on episodes and archives that are mounted.
#
#   docker build -t wshard .
#   docker run --rm -v "$PWD":/work wshard ingest episodes
#
# docker-compose.yml serves an archive to a team.
FROM python:3.11-slim AS build
RUN pip install --no-cache-dir build
COPY . /src/
RUN python -m build --wheel --outdir /dist /src && python -m zipfile -l /dist/*.whl | grep -q bridge/web/static/main.js

FROM python:3.11-slim
COPY constraints.txt /tmp/
COPY --from=build /dist/ /tmp/
RUN pip install --no-cache-dir -c /tmp/constraints.txt "$(ls /tmp/*.whl)[align,app,hdf5,lerobot,parquet,postgres]" \
    && rm /tmp/*.whl /tmp/constraints.txt && mkdir -m 1777 /cache
ENV WSHARD_CACHE=/cache
WORKDIR /work
# Files that it makes in a mounted folder belong to whom `--user` names; the image itself needs no rights.
USER 1000:1000
# Of the app, by whatever name it is served; other commands run without it (--no-healthcheck).
HEALTHCHECK --interval=30s --timeout=5s --start-period=2m \
    CMD ["python", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 8642, timeout=4); \
c.request('GET', '/login'); raise SystemExit(c.getresponse().status >= 500)"]
EXPOSE 8642
ENTRYPOINT ["wshard"]
CMD ["--help"]
