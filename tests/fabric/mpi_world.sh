#!/bin/sh
# mpi_world.sh PROGRAM MODULES WHAT MPIRUN OPTION…: runs four ranks of PROGRAM in a private directory.
set -eu
program=$1 modules=$2 what=$3
shift 3
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
"$@" -n 4 "$program" "$modules" "$directory" "$what"
