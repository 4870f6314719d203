#pragma once

// The whole of Trireme as a library: read a configuration, plan, prepare text, train, load a model,
// generate. What stands in namespace trireme::api is kept from one minor version to the next;
// nothing else that the archive holds is meant to be called.

#include "trireme/configuration.h"
#include "trireme/data.h"
#include "trireme/failure.h"
#include "trireme/generate.h"
#include "trireme/model.h"
#include "trireme/plan.h"
#include "trireme/train.h"
#include "trireme/version.h"
