// Headers that are precompiled for the graph compiler, as base/pch.h is for the other libraries.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "base/pch.h"
