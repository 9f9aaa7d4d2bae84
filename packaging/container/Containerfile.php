# Reprise for a PHP that was built from source, as the official images of PHP are: without thread safety, with --enable-embed.
# It makes a scratch image with two programs, which are copied into an image that is made of the same PHP:
#
#   docker build -t reprise-for-php --build-arg PHP=docker.io/library/php:8.4-cli-trixie -f packaging/container/Containerfile.php .
#
# docs/operations/containers.md has the image of an application, and the rest. Debian 13 (trixie) has a Rust that is new enough.
ARG PHP=docker.io/library/php:8.4-cli-trixie
FROM ${PHP} AS build
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates cargo gcc libc6-dev
WORKDIR /usr/src/reprise
COPY . .
# The path of a CA bundle for Cargo, where a proxy has an authority of its own.
ARG CARGO_HTTP_CAINFO
RUN --mount=type=cache,target=/usr/src/reprise/target --mount=type=cache,target=/root/.cargo/registry \
    refuse() { echo "Reprise cannot use this PHP: $1" >&2; exit 1; }; library=$(php-config --prefix)/lib/libphp.so; \
    test -e "$library" || refuse "there is no $library; build it with --enable-embed"; \
    ! php-config --configure-options | grep -q -e --enable-zts || refuse "it has thread safety; take one without"; \
    target=target/php-from-source; \
    PHP_LIBRARY=$library CARGO_TARGET_DIR=$target cargo build --release --locked -p reprise -p reprise-php \
 && install -D -s $target/release/reprise /files/usr/local/bin/reprise \
 && install -D -s $target/release/reprise-php /files/usr/lib/reprise/reprise-php

FROM scratch
COPY --from=build /files /
