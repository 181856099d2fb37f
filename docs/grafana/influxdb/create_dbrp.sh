#!/bin/sh
# Run once by the image, after the set-up made the bucket: InfluxQL reads it as database "roambench".
set -eu
influx v1 dbrp create \
    --bucket-id "$DOCKER_INFLUXDB_INIT_BUCKET_ID" \
    --db roambench --rp autogen --default \
    --org "$DOCKER_INFLUXDB_INIT_ORG" --token "$DOCKER_INFLUXDB_INIT_ADMIN_TOKEN"
