#!/bin/sh
# Run once by the image, after the set-up made the bucket: InfluxQL reads it as database "bench".
# Host and token are those of the command line configuration that the set-up has just written.
set -eu
influx v1 dbrp create \
    --bucket-id "$DOCKER_INFLUXDB_INIT_BUCKET_ID" \
    --org "$DOCKER_INFLUXDB_INIT_ORG" \
    --db bench --rp autogen --default
