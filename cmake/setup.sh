# shellcheck shell=bash
# The common functions of ./run and ./test: they install packages, then configure and build this tree. Source this file
# under `set -euo pipefail`.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
# The launcher's exit code for "infrastructure", so that a caller of ./run can distinguish it from failed cases.
readonly setup_failed=3

say() { printf '%s\n' "$*" >&2; }

# package_group build|check|bench|cluster|pytorch: Debian packages.
package_group() {
  case $1 in
    # Only tests need Python, but CMake looks for it when it configures them.
    build)
      printf '%s\n' g++ cmake ninja-build ccache catch2 libcli11-dev nlohmann-json3-dev libfmt-dev libeigen3-dev \
        libdlpack-dev libdw-dev libmimalloc-dev python3-minimal
      ;;
    check)
      printf '%s\n' clang-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev lld-19 shellcheck python3 \
        python3-jsonschema python3-yaml libcjson-dev pkgconf mandoc zsh dpkg-dev file mmdebstrap \
        openmpi-bin libopenmpi-dev mpich libmpich-dev
      ;;
    pytorch) printf '%s\n' python3 python3-venv ;;
    cluster) printf '%s\n' python3 slurm-wlm munge openmpi-bin libopenmpi-dev mpich libmpich-dev ;;
    bench) printf '%s\n' openmpi-bin libopenmpi-dev libbenchmark-dev ;;
  esac
}

# Prints the given packages that are not installed, or are too old.
missing_packages() {
  local have package status name version
  declare -A installed=()
  have=$(dpkg-query -W -f='${db:Status-Status} ${Package} ${Version}\n' "$@" 2>/dev/null || true)
  while read -r status name version; do
    if [[ $status == installed ]]; then installed[$name]=$version; fi
  done <<<"$have"
  for package in "$@"; do
    version=${installed[$package]:-}
    if [[ ! $version ]] || { [[ $package == catch2 ]] && dpkg --compare-versions "$version" lt 3.4; }; then
      printf '%s\n' "$package"
    fi
  done
}

on_bookworm() { grep -qs '^VERSION_CODENAME=bookworm$' /etc/os-release; }

# Prints the source of bookworm-backports to add to this machine: the name of its file, then its text. Prints nothing if
# it is not needed.
backports_source() {
  local file readable=()
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    [[ -r $file ]] && readable+=("$file")
  done
  ((${#readable[@]} == 0)) || awk -f "$root/cmake/backports_source.awk" "${readable[@]}"
}

# Prints a script for root that installs the given packages. Bookworm itself has Catch2 2; its backports have 3.7.
install_commands() {
  local packages=("$@") source='' i
  for i in "${!packages[@]}"; do
    if [[ ${packages[i]} == catch2 ]] && on_bookworm; then
      packages[i]=catch2/bookworm-backports
      source=$(backports_source)
    fi
  done
  if [[ $source ]]; then
    printf "cat >/etc/apt/sources.list.d/%s <<'END'\n%s\nEND\n" "${source%%$'\n'*}" "${source#*$'\n'}"
  fi
  printf 'apt-get update\n'
  printf 'apt-get install -y --no-install-recommends %s\n' "${packages[*]}"
}

# ensure_packages yes|no GROUP…: installs the missing packages of the groups. If that is forbidden (`no`) or root rights
# are missing, prints the commands and ends.
ensure_packages() {
  local allowed=$1 wanted missing commands
  shift
  mapfile -t wanted < <(for group in "$@"; do package_group "$group"; done)

  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    local tool absent=()
    for tool in g++ cmake ninja; do command -v "$tool" >/dev/null || absent+=("$tool"); done
    ((${#absent[@]} > 0)) || return 0 # CMake will report missing libraries
    say "shardproof: this system has no apt-get, and lacks: ${absent[*]}"
    say "Install these with the system's package manager, in these versions or later, then call the script again:"
    say "a C++20 compiler (g++ 12), CMake 3.25, Ninja, Catch2 3.4, CLI11 2, nlohmann_json 3.9, fmt 9, Eigen 3.4," \
      "DLPack (docs/building.md)."
    exit "$setup_failed"
  fi

  mapfile -t missing < <(missing_packages "${wanted[@]}")
  ((${#missing[@]} > 0)) || return 0
  commands=$(install_commands "${missing[@]}")

  local become_root=() obstacle=''
  if ((EUID != 0)); then
    become_root=(sudo -n)
    sudo -n true 2>/dev/null || obstacle='sudo asks for a password'
  fi
  [[ $allowed == yes ]] || obstacle='--no-install forbids it'
  if [[ $obstacle ]]; then
    say "shardproof: ${#missing[@]} Debian packages are missing." \
      "This script cannot install them: $obstacle. As root, run:"
    say ""
    say "$commands"
    exit "$setup_failed"
  fi

  say "shardproof: installing ${#missing[@]} missing Debian packages. As root, this script runs:"
  say "$commands"
  mkdir -p "$root/build"
  local log=$root/build/install.log
  # Installation has no terminal to read from, so debconf and needrestart must not ask questions.
  if ! "${become_root[@]}" env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l \
    bash -ec "$commands" </dev/null >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    say "shardproof: installing failed; all output is in $log"
    exit "$setup_failed"
  fi
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  ((${#missing[@]} == 0)) ||
    say "shardproof: this system's release of ${missing[*]} is too old;" \
      "CMake will search other folders (docs/building.md)"
}

# The number of compilers to run at once: the number of cores, but at most the number of free GiB of memory. The largest
# translation units take almost one GiB.
build_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '$1 == "MemAvailable:" { print int($2 / 1048576) }' /proc/meminfo)
  ((memory > 0)) || memory=1
  printf '%s' $((cores < memory ? cores : memory))
}

# Passes on the output of Ninja and CMake, and shortens their progress. On a terminal, progress is one live line. In a
# file it is a line at the beginning and a line at the end.
show_build() {
  local name=$1 line live='' announced='' stopped='' steps='' start=$SECONDS
  if [[ -t 2 ]]; then live=yes; fi
  while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\ (.*) ]]; then
      if [[ ${BASH_REMATCH[3]} == Re-* ]]; then continue; fi # looks for new files; configures again
      steps=${BASH_REMATCH[2]}
      if [[ $live ]]; then
        printf '\r\e[Kshardproof: building %s: %s of %s' "$name" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" >&2
      elif [[ ! $announced ]]; then
        say "shardproof: building $name (${BASH_REMATCH[2]} steps)"
      fi
      announced=yes
    elif [[ $line != '-- '* && $line != 'ninja: Entering'* && $line != 'ninja: no work'* ]]; then
      if [[ $line == 'ninja: build stopped'* ]]; then stopped=yes; fi
      if [[ $live && $announced ]]; then say ''; fi
      say "$line"
    fi
  done
  if [[ $live && $announced ]]; then printf '\r\e[K' >&2; fi
  if [[ $stopped ]]; then return; fi
  if [[ $announced ]]; then
    say "shardproof: built $name ($steps steps, $((SECONDS - start)) s)"
  elif [[ ! $live ]]; then
    say "shardproof: $name is up to date"
  fi
}

# configure_and_build PRESET FOLDER [TARGET…]: is quick if nothing has changed. Reports only its steps and failures.
configure_and_build() {
  local preset=$1 folder=$2
  shift 2
  mkdir -p "$folder"
  (
    # After an interrupt, Ninja and CMake end with the codes of a failure, and Bash would continue.
    trap 'exit 130' INT
    flock 9 # two calls at once in one checkout take turns
    # Ninja itself configures again after a change of a CMakeLists.txt. It does not see changes of presets, and no new
    # libraries, such as those of MPI.
    if [[ ! -e $folder/build.ninja || $root/CMakePresets.json -nt $folder/build.ninja ||
      $root/build/install.log -nt $folder/build.ninja ]]; then
      say "shardproof: configuring ${folder##*/}"
      if ! (cd "$root" && cmake --preset "$preset") >"$folder/configure.log" 2>&1; then
        cat "$folder/configure.log" >&2
        say "shardproof: configuring ${folder##*/} failed; CMake's output is above"
        exit "$setup_failed"
      fi
      touch "$folder/build.ninja"
    fi
    if ! NINJA_STATUS='[%f/%t] ' ninja -C "$folder" -j "$(build_jobs)" "$@" 2>&1 | show_build "${folder##*/}"; then
      say "shardproof: building ${folder##*/} failed; the compiler's output is above"
      exit "$setup_failed"
    fi
  ) 9>"$folder/.lock"
}

# -- PyTorch, on request, in its own environment.

readonly pytorch_home=$root/build/pytorch pytorch_package=$root/fixtures/pytorch
# Measured for 2.15.0: the size of the wheel, and the installed size with all dependencies.
readonly pytorch_sizes='its wheel is 0.54 GB, and with its dependencies it takes 5.4 GB'

# PYTHONPATH and PYTHONHOME would take precedence over the environment's own packages.
readonly without_python_path=(env -u PYTHONPATH -u PYTHONHOME)
pytorch_version() { sed -n 's/^pytorch = \["torch==\(.*\)"\]$/\1/p' "$pytorch_package/pyproject.toml"; }

# The user maintains an environment that SHARDPROOF_PYTORCH names.
pytorch_environment() { printf '%s' "${SHARDPROOF_PYTORCH:-$pytorch_home}"; }
has_pytorch() { [[ -x $(pytorch_environment)/bin/shardproof-pytorch-worker ]]; }

can_make_environments() { python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# Whether the environment has this tree's version of torch, and the current state of the package.
is_pytorch_ready() {
  local version installed versions='import importlib.metadata as m; print(m.version("torch"), m.version("shardproof"))'
  version=$(pytorch_version)
  installed=$("${without_python_path[@]}" "$pytorch_home/bin/python" -c "$versions" 2>/dev/null) || return 1
  [[ $installed == "$version"[+\ ]* ]] && has_pytorch || return 1
  cmp -s "$pytorch_package/pyproject.toml" "$pytorch_home/package/pyproject.toml" &&
    diff -rq --exclude=__pycache__ --exclude='*.egg-info' \
      "$pytorch_package/src" "$pytorch_home/package/src" >/dev/null 2>&1
}

# The environment's Python may be gone. Its pip may be missing if its creation was interrupted.
has_environment() { "${without_python_path[@]}" "$pytorch_home/bin/python" -m pip --version >/dev/null 2>&1; }

# Prints a script that makes or updates the environment. The script copies the package first, because building the
# package writes into its folder. The copy stays after the installation, and shows which state is installed.
pytorch_commands() {
  local home
  printf -v home '%q' "$pytorch_home"
  if has_environment; then
    printf 'rm -rf %s/new\n' "$home"
  else
    if [[ -e $pytorch_home ]]; then printf 'rm -rf %s\n' "$home"; fi
    printf 'python3 -m venv %s\n' "$home"
  fi
  printf 'cp -r %q %s/new\n' "$pytorch_package" "$home"
  printf "${without_python_path[*]} %s/bin/pip install --no-input --disable-pip-version-check %s/new'[pytorch]'\n" \
    "$home" "$home"
  printf 'rm -rf %s/package\n' "$home"
  printf 'mv %s/new %s/package\n' "$home" "$home"
}

# Reports the coming installation. Ends if it is forbidden (`no`) or not possible.
announce_pytorch() {
  local allowed=$1 commands=$2 what
  if has_pytorch; then
    what="PyTorch's private environment does not match this tree"
  else
    what="PyTorch $(pytorch_version) is not installed in build/pytorch; $pytorch_sizes"
  fi
  if [[ $allowed != yes ]]; then
    say "shardproof: $what. --no-install forbids this script to install it; run:"
    say ""
    say "$commands"
    exit "$setup_failed"
  fi
  say "shardproof: $what. This script runs:"
  say "$commands"
}

# ensure_pytorch yes|no: makes the environment. If that is forbidden (`no`), prints the commands and ends. It is quick
# if the environment is ready.
ensure_pytorch() {
  local allowed=$1 log=$root/build/pytorch-install.log
  if [[ ${SHARDPROOF_PYTORCH:-} ]] || is_pytorch_ready; then return 0; fi
  mkdir -p "$root/build"
  (
    flock 9 # two calls at once in one checkout take turns
    if is_pytorch_ready; then exit 0; fi # another call has installed it, and its ranks may use it
    if ! has_environment && ! can_make_environments; then
      ensure_packages "$allowed" pytorch
      if ! can_make_environments; then
        say "shardproof: PyTorch's environment needs Python 3.11 or later with its module venv;" \
          "python3 is $(python3 --version 2>&1 || true)"
        exit "$setup_failed"
      fi
    fi
    commands=$(pytorch_commands)
    announce_pytorch "$allowed" "$commands"
    if ! bash -ec "$commands" </dev/null >"$log" 2>&1 || ! is_pytorch_ready; then
      tail -n 20 "$log" >&2
      say "shardproof: installing PyTorch failed; all output is in $log"
      exit "$setup_failed"
    fi
  ) 9>"$root/build/.pytorch.lock"
}
