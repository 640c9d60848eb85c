// SPDX-License-Identifier: Apache-2.0
// Balance: relevance from information I, salience S and coupling C by opponent processing. Three
// tensions, each between two poles a and b with the weight w of the first:
//   compress-particularize  I against S     exploit-explore  C against I     focus-diversify  C
//   against S
//
//   form      tension                                       relevance
//   kMean     1 / (w/a + (1-w)/b), 0 where a or b is 0      the mean of the three
//   kProduct  a^(2w) b^(2-2w), which is a b for w = 1/2     the cube root of the three multiplied
//   kSum      w a + (1-w) b                                 the mean of the three
//   kCoupling, kSalience, kInformation                      that map alone
//
// The default is the weighted harmonic mean, an AND that bends: both poles must agree, the weaker
// one decides, and a tension between equals is what they are. All forms stay in [0,1] and never
// fall when an input rises: each input enters once and every step of the arithmetic is monotone
// (powers within an ulp, far below a step of the score). A weight of 1 or 0 is one pole alone.
//
// Without a question what stands out stands in for what is asked: C = S. Against where people look
// that is better than any constant (NSS 1.88; C = 1: 1.75, C = 1/2: 1.78).
#pragma once

#include "base/threads.h"
#include "relevance/relevance.h"

namespace fovea {

// Fills the three tensions and the relevance from information, salience and (unless empty)
// coupling.
void balance(Threads& threads, const RelevanceParams& params, Relevance& parts);
// The same from the formulas as they are written in books.
void balance_reference(const RelevanceParams& params, Relevance& parts);

// One tension; poles and result in [0,1].
double navigate(Balance form, double a, double b, double weight);

}  // namespace fovea
