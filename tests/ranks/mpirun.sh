# Sourced by the scripts of this folder: `ranks N ARG...` runs the program as N processes of this
# machine. MPIRUN is a program, or "launch": then the agent of the program itself starts them.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Open MPI never frees some of its own memory, for which LeakSanitizer would fail every rank.
export ASAN_OPTIONS=detect_leaks=0
PROGRAM=$1
MPIRUN=$2

launch=("$MPIRUN" --oversubscribe --bind-to none --mca btl self,vader,tcp
        --mca btl_tcp_if_include lo
        --mca oob_tcp_if_include lo)

ranks() {
  local count=$1
  shift
  if [[ $MPIRUN == launch ]]; then
    if [[ $1 == train ]]; then
      timeout 300 "$PROGRAM" launch "${@:2}" --ranks "$count"
    else
      timeout 300 "$PROGRAM" launch "$count" "$@"
    fi
    return
  fi
  timeout 300 "${launch[@]}" -n "$count" "$PROGRAM" "$@"
}
