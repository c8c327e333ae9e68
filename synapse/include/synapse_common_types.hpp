// The name under which C++ programs include synapse_common_types.h.
#pragma once

#include "synapse_common_types.h"
