# The command `wshard`: ingest, search and everything else, on episodes and archives that are mounted.
#
#   docker build -t wshard .
#   docker run --rm -v "$PWD":/work wshard ingest episodes --archive archive
FROM python:3.11-slim
COPY constraints.txt pyproject.toml README.md LICENSE /src/
COPY wshard /src/wshard
COPY embedders /src/embedders
COPY catalog /src/catalog
COPY bridge /src/bridge
RUN pip install --no-cache-dir -c /src/constraints.txt "/src[postgres]"
WORKDIR /work
# Files that it makes in a mounted folder belong to whom `--user` names; the image itself needs no rights.
USER 1000:1000
ENTRYPOINT ["wshard"]
CMD ["--help"]
