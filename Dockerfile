# syntax=docker/dockerfile:1
# The rendered book, served read-only by a user without rights:
#   docker build --tag rbp-book .
#   docker run --rm --read-only --tmpfs /tmp --publish 127.0.0.1:8080:8080 rbp-book

FROM python:3.11-bookworm AS build
WORKDIR /companion
COPY . .
RUN make book

FROM nginxinc/nginx-unprivileged:1.28-alpine-slim
COPY <<EOF /etc/nginx/conf.d/default.conf
server {
    listen 8080;
    server_tokens off;
    root /usr/share/nginx/html;
    charset utf-8;
    gzip on;
    gzip_vary on;
    gzip_types text/css text/javascript application/javascript application/json image/svg+xml text/csv;
    add_header X-Content-Type-Options nosniff;
}
EOF

COPY --from=build --chmod=555 /companion/_build/html /usr/share/nginx/html
USER 101
EXPOSE 8080
HEALTHCHECK CMD ["wget", "--quiet", "--spider", "http://127.0.0.1:8080/"]
