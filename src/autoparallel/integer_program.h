#pragma once

#include <optional>

#include "autoparallel/choice_problem.h"

namespace trireme {

// Solves a choice problem by CBC as the linear integer program
//   min  sum_v c_v s_v + sum_vu R_vu e_vu
//   s_v one-hot;  sum_j e_vu[i, j] = s_v[i];  sum_i e_vu[i, j] = s_u[j];  e >= 0;
//   sum_v bytes_v s_v <= limit.
// The variables e need not be integers: if s is one-hot, they are products of its elements. CBC
// prints nothing and uses one thread. Returns nullopt if no assignment keeps the limit. Throws
// ContractError if CBC gives up.
std::optional<Assignment> solve_integer_program(const ChoiceProblem& problem,
                                                const ChoiceLimit& limit);

}  // namespace trireme
