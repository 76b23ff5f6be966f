# The coda command and library on Debian, CPU backend.
#   docker build -t coda .
#   docker run --rm -v "$PWD:/data" coda run /data/model.onnx --image /data/image.png --out /data/out
FROM debian:12-slim AS build
WORKDIR /src
COPY scripts scripts
ENV CODA_DEPS_DIR=/opt/coda-deps
RUN scripts/setup.sh build
COPY . .
RUN cmake --preset release -DCODA_TESTS=OFF -DCODA_BENCH=OFF -DCODA_DEPS_DIR=$CODA_DEPS_DIR \
 && cmake --build build/release -j "$(nproc)" \
 && cmake --install build/release --prefix /opt/coda

FROM debian:12-slim
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends \
      libfmt9 libprotobuf32 libsleef3 libgomp1 libpng16-16 libjpeg62-turbo libzip4 libsqlite3-0 libfreetype6 fonts-dejavu-core \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/coda /usr/local
RUN ldconfig
ENTRYPOINT ["coda"]
