#!/bin/sh
# The entry point of the container: the words of the command line go to `groundlab`.
. /opt/groundlab/requirements/image-cache.sh
exec groundlab "$@"
