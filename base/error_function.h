// The inverse of the error function, which C++ lacks. Reference results are calculated with it.
#pragma once

#include <cmath>

namespace hpu {

// Returns the y with erf(y) = x: infinite for x = -1 and 1, and NaN outside of them. It takes three
// steps of Halley's method from an approximation that is within 0.4 % (Winitzki, "A handy
// approximation for the error function and its inverse", 2008).
inline double ErfInverse(double x) {
  const double size = std::fabs(x);
  if (!(size < 1)) return size == 1 ? x * HUGE_VAL : NAN;
  if (x == 0) return x;
  const double log = std::log((1 - x) * (1 + x));
  const double part = 2 / (M_PI * 0.147) + log / 2;
  double y = std::sqrt(std::sqrt(part * part - log / 0.147) - part);
  for (int step = 0; step < 3; ++step) {
    // Close to 1, erfc has the digits that erf lacks.
    const double excess = size < 0.5 ? std::erf(y) - size : (1 - size) - std::erfc(y);
    const double newton = excess * std::sqrt(M_PI) / 2 * std::exp(y * y);
    y -= newton / (1 + y * newton);
  }
  return std::copysign(y, x);
}

}  // namespace hpu
