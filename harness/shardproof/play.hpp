// What a program of ranked tests needs to play scenarios, and to use devices. Link it to `shardproof::play`.
#pragma once

#include <shardproof.hpp>

#include "harness/faults/wrappers.hpp"
#include "harness/player/play.hpp"
#include "harness/runner/play/play_main.hpp"
#include "harness/scenario/builder.hpp"
#include "harness/scenario/plan/host_mesh.hpp"
#include "harness/subject/subject.hpp"

using shardproof::make_platform;
using shardproof::play;
