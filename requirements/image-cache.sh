# Sourced by both images: a folder for compiled code that this user may write, filled with what was compiled at build
# time. Numba must be able to write even where it only reads, the image may be read-only, and another CPU compiles again.
if [ -z "${NUMBA_CACHE_DIR:-}" ]; then
  NUMBA_CACHE_DIR=$(
    image=${GROUNDLAB_COMMIT:-unknown} folder=${XDG_CACHE_HOME:-${HOME:-/nowhere}/.cache}/groundlab
    [ "$image" != unknown ] || image=unknown-$(tar -cC /opt/groundlab .numba | cksum | tr ' ' -)
    if mkdir -p "$folder" 2>/dev/null && [ -w "$folder" ]; then
      folder=$folder/image-$image
      may_use() { [ -d "$folder" ] && [ -O "$folder" ] && [ -w "$folder" ]; } # with HOME=/tmp others could make it
    else # others write in /tmp, too, and Numba runs what it finds: only a folder that this user alone can write
      folder=${TMPDIR:-/tmp}/groundlab-$(id -u)-$image
      may_use() { [ "$(stat -c %F:%u:%a "$folder" 2>/dev/null)" = "directory:$(id -u):700" ]; }
    fi
    if ! may_use; then # filled first, then renamed: the tasks of a job array start together
      new=$(mktemp -d "$folder.XXXXXX" 2>/dev/null) && cp -R /opt/groundlab/.numba/. "$new" || { rm -rf "$new"; exit 0; }
      mv -T "$new" "$folder" 2>/dev/null || if may_use; then rm -rf "$new"; else folder=$new; fi
    fi
    echo "$folder"
  )
  [ -n "$NUMBA_CACHE_DIR" ] && export NUMBA_CACHE_DIR || unset NUMBA_CACHE_DIR # without one groundlab makes its own
  [ -w "${HOME:-/nowhere}" ] || [ -z "${NUMBA_CACHE_DIR:-}" ] || export IPYTHONDIR="$NUMBA_CACHE_DIR/ipython" \
    JUPYTER_CONFIG_DIR="$NUMBA_CACHE_DIR/jupyter" JUPYTER_DATA_DIR="$NUMBA_CACHE_DIR/jupyter"
fi
