#!/bin/sh
# Runs a command with the URL of the database, whose password is in a file: so it is in no listing of processes
# and in no file of settings.
set -eu
password=$(cat "${PASSWORD_FILE:-/run/secrets/database-password}")
url="postgresql://sfumato:$password@${DATABASE_HOST:-database}/sfumato"
export SFUMATO_SERVE_DATABASE="$url" SFUMATO_SERVE_LEDGER="$url"
exec "$@"
