// What the operands of a kernel's products by mma and wgmma stand for, told by their values: Q, K
// and V are known, and P and dS follow from them.
#ifndef CUFLASH_GRADER_PRODUCTS_H_
#define CUFLASH_GRADER_PRODUCTS_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "cuflash/problem.h"
#include "cuflash/stage.h"
#include "harness/inputs.h"
#include "simt/machine.h"

namespace cuflash::exercises {

// A part of a matrix of one head: element (r, c) is [row + r][column + c], or [row + c][column +
// r]. P and dS have a row for each query, whichever way an operand holds them.
struct Part {
  std::string matrix;  // "Q", "P", "accumulator O"; empty if not known
  std::int64_t row = 0;
  int column = 0;
  bool turned = false;

  std::int64_t row_of(int r, int c) const { return row + (turned ? c : r); }
  int column_of(int r, int c) const { return column + (turned ? r : c); }
};

constexpr int kProductDepth = 16;  // columns of the left operand

struct Product {
  simt::LoggedProduct log;
  Part a, b, d;
  int like = -1;          // of an exercise: the number of the stage's product that it stands for
  bool continues = true;  // D is what the products of the tile before have made of it
};

// A warp or a warpgroup in one tile.
using Group = std::tuple<int, std::uint64_t, int, int>;
inline Group group_of(const Product& product) {
  const simt::LoggedAccess& at = product.log.at;
  return {at.launch, at.block, at.thread, at.tile};
}

// The stage's own.
std::vector<Product> named_products(std::vector<simt::LoggedProduct> products, Pass pass,
                                    const Problem& problem, const harness::Inputs& inputs);

// An exercise's. Of the stage's products of the same warp and tile one is like another if it has
// the same operands; else the same left or right one; else its place in the order.
std::vector<Product> products_like(std::vector<simt::LoggedProduct> products,
                                   const std::vector<Product>& own);

}  // namespace cuflash::exercises

#endif  // CUFLASH_GRADER_PRODUCTS_H_
