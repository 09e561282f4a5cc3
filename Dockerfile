# The program alone, without a system around it: docker build -t demask . && docker run --rm demask generate "…"
FROM rust:1-alpine AS build
RUN apk add --no-cache musl-dev
WORKDIR /demask
COPY . .
RUN cargo build --profile dist --locked -p demask-cli && cp target/dist/demask /usr/local/bin/

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /usr/local/bin/demask /usr/local/bin/demask
# Where models of the Hub go: mount a volume here.
ENV HF_HOME=/models
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/demask"]
CMD ["doctor"]
