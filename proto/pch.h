// Precompiled for what speaks gRPC, as base/pch.h is for the other libraries.
#pragma once

#include <grpcpp/grpcpp.h>

#include "base/pch.h"
