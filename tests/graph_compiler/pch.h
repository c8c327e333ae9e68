// Headers that are precompiled for the tests of the graph compiler.
#pragma once

#include "graph_compiler/pch.h"
#include "tests/pch.h"
