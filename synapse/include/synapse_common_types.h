// The name under which programs include the types of the API and the parameters of nodes.
#pragma once

#include "synapse_api_types.h"
#include "synapse_node_params.h"
