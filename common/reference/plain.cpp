#include "reference/plain.h"

#include "reference/attention.h"

namespace cuflash::reference {

using Floats = std::vector<float>;

static void round_all(Floats& values, Round round) {
  for (float& value : values) value = round(value);
}

PlainOutput plain_forward(const Problem& p, const Floats& q, const Floats& k, const Floats& v,
                          Round round, const Score& score) {
  auto out = forward<PlainOutput>(p, q, k, v, round, score);
  round_all(out.o, round);
  return out;
}

PlainGradients plain_backward(const Problem& p, const Floats& q, const Floats& k, const Floats& v,
                              const PlainOutput& given, const Floats& d_o, Round round,
                              const Score& score) {
  auto out = backward<PlainGradients>(p, q, k, v, given, d_o, round, score);
  for (Floats* gradient : {&out.dq, &out.dk, &out.dv}) round_all(*gradient, round);
  return out;
}

}  // namespace cuflash::reference
