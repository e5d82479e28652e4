# Sourced by both images: a folder for compiled code that this user may write, filled with what was compiled at build
# time. Numba must be able to write even where it only reads, the image may be read-only, and another CPU compiles anew.
if [ -z "${NUMBA_CACHE_DIR:-}" ]; then
  NUMBA_CACHE_DIR=${XDG_CACHE_HOME:-${HOME:-/nowhere}/.cache}/groundlab/image-${GROUNDLAB_COMMIT:-unknown}
  mkdir -p "${NUMBA_CACHE_DIR%/*}" 2>/dev/null && [ -w "${NUMBA_CACHE_DIR%/*}" ] || NUMBA_CACHE_DIR=${TMPDIR:-/tmp}/groundlab-$(id -u)
  if [ ! -d "$NUMBA_CACHE_DIR" ]; then # by one rename: the tasks of a job array start together
    cp -R /opt/groundlab/.numba "$NUMBA_CACHE_DIR.$$"
    mv -T "$NUMBA_CACHE_DIR.$$" "$NUMBA_CACHE_DIR" 2>/dev/null || rm -rf "$NUMBA_CACHE_DIR.$$"
  fi
  export NUMBA_CACHE_DIR
fi
