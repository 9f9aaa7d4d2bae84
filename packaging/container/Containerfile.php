# Reprise for a PHP that was built from source, as the official images of PHP are: without thread safety, with --enable-embed.
# It makes an image with two files, to be copied into one that is made of the same PHP:
#
#   docker build -t reprise-for-php --build-arg PHP=php:8.4-cli -f packaging/container/Containerfile.php .
#
#   FROM php:8.4-cli
#   COPY --from=reprise-for-php / /
#   COPY . /app
#   USER www-data
#   CMD ["reprise", "serve", "/app", "--listen", "*:8080"]
#
# docs/operations/containers.md has the rest.
ARG PHP
FROM ${PHP} AS build
# Rust 1.85 or newer is that of Debian 13.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates cargo gcc libc6-dev
WORKDIR /usr/src/reprise
COPY . .
# A file of the authorities that Cargo trusts, where a proxy has its own.
ARG CARGO_HTTP_CAINFO
RUN refuse() { echo "Reprise cannot use this PHP: $1" >&2; exit 1; }; library=$(php-config --prefix)/lib/libphp.so; \
    test -e "$library" || refuse "there is no $library; build it with --enable-embed"; \
    ! php-config --configure-options | grep -q -e --enable-zts || refuse "it has thread safety; take one without"; \
    PHP_LIBRARY=$library cargo build --release --locked -p reprise -p reprise-php \
 && install -D -s target/release/reprise /files/usr/local/bin/reprise \
 && install -D -s target/release/reprise-php /files/usr/lib/reprise/reprise-php

FROM scratch
COPY --from=build /files /
