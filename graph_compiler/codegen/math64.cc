#include "graph_compiler/codegen/math64.h"

#include "graph_compiler/codegen/elementary64.h"
#include "graph_compiler/codegen/error_functions.h"

namespace hpu::graph_compiler {
namespace {

llvm::Value* Sinh(const Math64& m, llvm::Value* x) {
  llvm::Value* t = m.Expm1(m.Abs(x));
  llvm::Value* sum = m.Add(t, m.Div(t, m.Add(t, m.Const(1.0))));
  return m.CopySign(m.Mul(sum, m.Const(0.5)), x);
}

llvm::Value* Cosh(const Math64& m, llvm::Value* x) {
  llvm::Value* t = m.Exp(m.Abs(x));
  return m.Mul(m.Add(t, m.Div(m.Const(1.0), t)), m.Const(0.5));
}

// log(a + sqrt(a^2 + 1)) = log1p(a + a^2 / (1 + sqrt(a^2 + 1))).
llvm::Value* Asinh(const Math64& m, llvm::Value* x) {
  llvm::Value* a = m.Abs(x);
  llvm::Value* square = m.Mul(a, a);
  llvm::Value* root = m.Sqrt(m.Add(square, m.Const(1.0)));
  llvm::Value* log = m.Log1p(m.Add(a, m.Div(square, m.Add(m.Const(1.0), root))));
  return m.CopySign(m.Select(m.Equal(a, m.Infinity()), a, log), x);
}

llvm::Value* Acosh(const Math64& m, llvm::Value* x) {
  llvm::Value* t = m.Sub(x, m.Const(1.0));
  llvm::Value* log = m.Log1p(m.Add(t, m.Sqrt(m.Add(m.Add(t, t), m.Mul(t, t)))));
  return m.Select(m.Less(x, m.Const(1.0)), m.Nan(), log);
}

llvm::Value* Atanh(const Math64& m, llvm::Value* x) {
  llvm::Value* a = m.Abs(x);
  llvm::Value* log = m.Log1p(m.Div(m.Add(a, a), m.Sub(m.Const(1.0), a)));
  return m.CopySign(m.Mul(log, m.Const(0.5)), x);
}

}  // namespace

bool IsMath64Opcode(Opcode op) {
  switch (op) {
    case Opcode::kLog1p:
    case Opcode::kLog2:
    case Opcode::kLog10:
    case Opcode::kSin:
    case Opcode::kCos:
    case Opcode::kTan:
    case Opcode::kAsin:
    case Opcode::kAcos:
    case Opcode::kAtan:
    case Opcode::kAtan2:
    case Opcode::kSinh:
    case Opcode::kCosh:
    case Opcode::kAsinh:
    case Opcode::kAcosh:
    case Opcode::kAtanh:
    case Opcode::kErfc:
    case Opcode::kErfinv:
    case Opcode::kPow:
      return true;
    default:
      return false;
  }
}

llvm::Value* EmitMath64(llvm::IRBuilder<>& builder, const TargetInfo& target, Opcode op,
                        const std::vector<llvm::Value*>& args) {
  llvm::Type* f32 = args[0]->getType();
  llvm::Type* f64 = WithLanesOf(builder.getDoubleTy(), f32);
  const Math64 m(builder, target, f64);
  std::vector<llvm::Value*> wide;
  for (llvm::Value* arg : args) wide.push_back(builder.CreateFPExt(arg, f64));
  llvm::Value* x = wide[0];
  const auto result = [&]() -> llvm::Value* {
    switch (op) {
      case Opcode::kLog1p:
        return m.Log1p(x);
      case Opcode::kLog2:
        return m.Log2(x);
      case Opcode::kLog10:
        return m.Mul(m.Log(x), m.Const(0.43429448190325182));
      case Opcode::kSin:
        return m.SinAndCos(args[0]).sin;
      case Opcode::kCos:
        return m.SinAndCos(args[0]).cos;
      case Opcode::kTan: {
        const Math64::SinCos both = m.SinAndCos(args[0]);
        return m.Div(both.sin, both.cos);
      }
      case Opcode::kAsin:
        return m.Asin(x);
      case Opcode::kAcos:
        return m.Acos(x);
      case Opcode::kAtan:
        return m.CopySign(m.AtanPositive(m.Abs(x)), x);
      case Opcode::kAtan2:
        return m.Atan2(x, wide[1]);
      case Opcode::kSinh:
        return Sinh(m, x);
      case Opcode::kCosh:
        return Cosh(m, x);
      case Opcode::kAsinh:
        return Asinh(m, x);
      case Opcode::kAcosh:
        return Acosh(m, x);
      case Opcode::kAtanh:
        return Atanh(m, x);
      case Opcode::kErfc:
        return Erfc(m, x);
      case Opcode::kErfinv:
        return Erfinv(m, x);
      default:
        return m.Pow(x, wide[1]);
    }
  }();
  return builder.CreateFPTrunc(result, f32);
}

}  // namespace hpu::graph_compiler
