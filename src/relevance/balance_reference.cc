// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "relevance/balance.h"

namespace fovea {
namespace {

double tension(Balance form, double a, double b, double w) {
  if (form == Balance::kSum) return w * a + (1 - w) * b;
  if (form == Balance::kProduct) return std::pow(a, 2 * w) * std::pow(b, 2 * (1 - w));
  if (w == 0 || w == 1) return w == 1 ? a : b;
  return a == 0 || b == 0 ? 0 : a * b / (w * b + (1 - w) * a);
}

uint16_t score_of(double value) {
  return static_cast<uint16_t>(std::lround(std::min(1.0, value) * 65535));
}

}  // namespace

void balance_reference(const RelevanceParams& given, Relevance& parts) {
  RelevanceParams params = given;
  const bool alone = given.balance == Balance::kCoupling || given.balance == Balance::kSalience ||
                     given.balance == Balance::kInformation;
  if (alone) params.balance = Balance::kMean;
  const Map& asked = parts.coupling.empty() ? parts.salience : parts.coupling;
  parts.compress_particularize = parts.exploit_explore = parts.focus_diversify = parts.relevance =
      Map(parts.information.grid);
  for (size_t i = 0; i < parts.information.score.size(); ++i) {
    const double information = parts.information.score[i] / 65535.0;
    const double salience = parts.salience.score[i] / 65535.0;
    const double coupling = asked.score[i] / 65535.0;
    const double compress =
        tension(params.balance, information, salience, params.compress_particularize);
    const double exploit = tension(params.balance, coupling, information, params.exploit_explore);
    const double focus = tension(params.balance, coupling, salience, params.focus_diversify);
    parts.compress_particularize.score[i] = score_of(compress);
    parts.exploit_explore.score[i] = score_of(exploit);
    parts.focus_diversify.score[i] = score_of(focus);
    parts.relevance.score[i] =
        score_of(params.balance == Balance::kProduct ? std::pow(compress * exploit * focus, 1.0 / 3)
                                                     : (compress + exploit + focus) / 3);
  }
  if (given.balance == Balance::kCoupling) parts.relevance = asked;
  if (given.balance == Balance::kSalience) parts.relevance = parts.salience;
  if (given.balance == Balance::kInformation) parts.relevance = parts.information;
}

}  // namespace fovea
