#!/bin/sh
# The entry point of the container: the words of the command line go to `groundlab`, or name a program that the image holds.
. /opt/groundlab/requirements/image-cache.sh
case ${1:-} in
  groundlab | nox | jupyter | papermill | pytest | python | python3 | accelerate | sh | bash | /*) exec "$@" ;;
esac
exec groundlab "$@"
