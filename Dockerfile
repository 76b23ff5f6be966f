# The unisono command and library on Debian, CPU backend.
#   docker build -t unisono .
#   docker run --rm -v "$PWD:/data" unisono run /data/model.onnx --image /data/image.png --out /data/out
FROM debian:12-slim AS build
WORKDIR /src
COPY scripts scripts
ENV UNISONO_DEPS_DIR=/opt/unisono-deps
RUN scripts/setup.sh build
COPY . .
RUN cmake --preset release -DUNISONO_TESTS=OFF -DUNISONO_BENCH=OFF -DUNISONO_DEPS_DIR=$UNISONO_DEPS_DIR \
 && cmake --build build/release -j "$(nproc)" \
 && cmake --install build/release --prefix /opt/unisono

FROM debian:12-slim
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends \
      libfmt9 libprotobuf32 libsleef3 libgomp1 libpng16-16 libjpeg62-turbo libzip4 libsqlite3-0 libfreetype6 fonts-dejavu-core \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/unisono /usr/local
RUN ldconfig
ENTRYPOINT ["unisono"]
