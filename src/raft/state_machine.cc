#include "raft/state_machine.h"
