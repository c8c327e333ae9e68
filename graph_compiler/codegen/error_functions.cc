#include "graph_compiler/codegen/error_functions.h"

// Polynomials interpolate at Chebyshev nodes, calculated in 50-digit arithmetic, in a variable that
// runs from -1 to 1. Their relative errors are below 2^-36.

namespace hpu::graph_compiler {
namespace {

// Returns the variable that is -1 at `low` and 1 at `high`.
llvm::Value* Between(const Math64& m, llvm::Value* x, double low, double high) {
  const double scale = 2 / (high - low);
  return m.Fma(x, m.Const(scale), m.Const(-(low + high) / 2 * scale));
}

// exp(x^2) erfc(x) for x from 1 to 10.2, beyond which erfc is no f32 value.
llvm::Value* ScaledErfc(const Math64& m, llvm::Value* x) {
  const double den = 3;
  llvm::Value* t = m.Div(m.Const(den), m.Add(x, m.Const(den)));
  return m.Polynomial(
      Between(m, t, den / (den + 10.2), den / (den + 1)),
      {0.17171187027553228, 0.16481540502812952, 0.064372928707499, 0.020528648153034085,
       0.005146263568693917, 0.0009289850311587947, 8.921635728570742e-05, -6.400946166299778e-06,
       -3.268258590093264e-06, -1.7118433939236318e-07, 9.181041399827194e-08,
       1.0269263083279755e-08, -2.65602146248191e-09});
}

// erf(x) for |x| up to 1
llvm::Value* SmallErf(const Math64& m, llvm::Value* x) {
  llvm::Value* z = m.Mul(x, x);
  llvm::Value* ratio = m.Polynomial(
      Between(m, z, 0, 1), {0.9654687386698673, -0.14053608901553188, 0.019852496688660258,
                            -0.0022854856569336727, 0.00021751716035374902, -1.7536824729018507e-05,
                            1.2233672197978863e-06, -7.557490441753586e-08, 4.13647681291993e-09});
  return m.Mul(x, ratio);
}

}  // namespace

llvm::Value* Erfc(const Math64& m, llvm::Value* x) {
  llvm::Value* magnitude = m.AtMost(m.Abs(x), 10.2);
  llvm::Value* tail = m.Mul(m.Exp(m.Neg(m.Mul(magnitude, magnitude))), ScaledErfc(m, magnitude));
  llvm::Value* large = m.Select(m.Less(x, m.Const(0.0)), m.Sub(m.Const(2.0), tail), tail);
  return m.Select(m.Less(m.Const(1.0), magnitude), large, m.Sub(m.Const(1.0), SmallErf(m, x)));
}

// The ratio of result and x is a smooth function of w = -log(1 - x^2), and for large w of its root.
llvm::Value* Erfinv(const Math64& m, llvm::Value* x) {
  llvm::Value* w = m.Neg(m.Log(m.Mul(m.Sub(m.Const(1.0), x), m.Add(m.Const(1.0), x))));
  llvm::Value* near =
      m.Polynomial(Between(m, w, 0, 5),
                   {1.501409351110792, 0.6166006918263983, -0.026108235787447746,
                    -0.019573559782441536, 0.008525401325553985, -0.0004879123790397179,
                    -0.0008341396736029983, 0.000292258875282433, 2.0491465976282284e-05,
                    -4.160558984035741e-05, 8.606797645482773e-06, 3.0952563389233227e-06,
                    -1.7954317344206318e-06, -5.0497316108145964e-08, 1.6335380494319003e-07});
  llvm::Value* far =
      m.Polynomial(Between(m, m.Sqrt(w), 2.2360679774997897, 4.1),
                   {3.0015268114607454, 0.9359706742990413, 0.005562028611756646,
                    -0.0037984832948563993, 0.002479181591062607, -0.0015519425996247845,
                    0.0007586534718228213, -0.00021475011546565005, -2.3527054080036825e-05,
                    5.9987639667583476e-05, -2.846583405268846e-05, 2.025461237244722e-06,
                    4.14450986837003e-06, -1.450246018971484e-06, -4.723816098905035e-09});
  llvm::Value* inside = m.Mul(x, m.Select(m.Less(w, m.Const(5.0)), near, far));
  llvm::Value* magnitude = m.Abs(x);
  llvm::Value* end = m.CopySign(m.Infinity(), x);
  llvm::Value* result = m.Select(m.Equal(magnitude, m.Const(1.0)), end, inside);
  return m.Select(m.Less(m.Const(1.0), magnitude), m.Nan(), result);
}

}  // namespace hpu::graph_compiler
