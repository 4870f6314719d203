#pragma once

// All of Trireme as a library: read a configuration, plan a run, prepare text, train, load a model
// and generate text. Within one minor version, the interface in namespace trireme::api does not
// change. Programs should not call anything else that the archive contains.

#include "trireme/configuration.h"
#include "trireme/data.h"
#include "trireme/failure.h"
#include "trireme/generate.h"
#include "trireme/model.h"
#include "trireme/plan.h"
#include "trireme/train.h"
#include "trireme/version.h"
