// Precompiled for the tests, as base/pch.h is for the libraries.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/pch.h"
