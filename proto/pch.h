// The precompiled header for code that uses gRPC, as base/pch.h is for the other libraries.
#pragma once

#include <grpcpp/grpcpp.h>

#include "base/pch.h"
