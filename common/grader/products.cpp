#include "products.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

namespace cuflash::exercises {
namespace {

struct Matrix {
  const std::vector<float>& values;
  int rows, cols;
  float operator()(int r, int c) const { return values[r * cols + c]; }
};

// ---- Inputs -------------------------------------------------------------------------------------

struct Tensor {
  const char* name;
  const std::vector<float>& values;
  int heads, seq;  // of all batches
};

// A part of a tensor, and its head.
struct Place {
  Part part;
  int head = 0;
};

// Finds parts of the inputs by their first two values.
class Inputs {
 public:
  Inputs(const Problem& p, const harness::Inputs& in) : p_(p), in_(in) {
    tensors_.push_back({"Q", in.q, p.batch * p.heads_q, p.seq_q});
    tensors_.push_back({"K", in.k, p.batch * p.heads_kv, p.seq_kv});
    tensors_.push_back({"V", in.v, p.batch * p.heads_kv, p.seq_kv});
    tensors_.push_back({"dO", in.d_o, p.batch * p.heads_q, p.seq_q});
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      for (std::size_t at = 0; at + 1 < tensors_[t].values.size(); at += 8) {
        spots_[key(tensors_[t].values[at], tensors_[t].values[at + 1])].push_back({t, at});
      }
    }
  }

  Place find(const Matrix& matrix) const {
    for (const bool turned : {false, true}) {
      const float x = matrix(0, 0), y = turned ? matrix(1, 0) : matrix(0, 1);
      const auto found = spots_.find(key(x, y));
      if ((x == 0 && y == 0) || found == spots_.end()) continue;
      for (const auto& [t, at] : found->second) {
        const Tensor& tensor = tensors_[t];
        const auto line = static_cast<std::int64_t>(at) / p_.head_dim;
        const Place place = {
            {tensor.name, line % tensor.seq, static_cast<int>(at % p_.head_dim), turned},
            static_cast<int>(line / tensor.seq)};
        if (is_at(place, tensor, matrix)) return place;
      }
    }
    return {};
  }

  double score(int head, int i, int j) const {
    return p_.softmax_scale * dot(in_.q, query(head, i), in_.k, key_of(head, j));
  }
  // P, but for a factor of the row, or dS.
  double value(bool prob, int head, int i, int j, double reference) const {
    const double p = std::exp(score(head, i, j) - reference);
    if (prob) return p;
    const double dp = dot(in_.d_o, query(head, i), in_.v, key_of(head, j));
    return p * (dp - dot(in_.d_o, query(head, i), in_.o, query(head, i)));
  }

 private:
  static std::uint64_t key(float x, float y) {
    std::uint32_t bits[2];
    std::memcpy(&bits[0], &x, sizeof x);
    std::memcpy(&bits[1], &y, sizeof y);
    return std::uint64_t{bits[0]} << 32 | bits[1];
  }
  // Rows past the end of the sequence may hold anything.
  bool is_at(const Place& place, const Tensor& tensor, const Matrix& matrix) const {
    for (int r = 0; r < matrix.rows; ++r) {
      for (int c = 0; c < matrix.cols; ++c) {
        const std::int64_t row = place.part.row_of(r, c);
        const int column = place.part.column_of(r, c);
        if (row >= tensor.seq) continue;
        if (column >= p_.head_dim) return false;
        const std::size_t at = (place.head * tensor.seq + row) * p_.head_dim + column;
        if (tensor.values[at] != matrix(r, c)) return false;
      }
    }
    return true;
  }
  std::size_t query(int head, int i) const { return std::size_t(head) * p_.seq_q + i; }
  std::size_t key_of(int head, int j) const {
    return std::size_t(head / (p_.heads_q / p_.heads_kv)) * p_.seq_kv + j;
  }
  double dot(const std::vector<float>& a, std::size_t row_a, const std::vector<float>& b,
             std::size_t row_b) const {
    double sum = 0;
    for (int d = 0; d < p_.head_dim; ++d) {
      sum += double(a[row_a * p_.head_dim + d]) * b[row_b * p_.head_dim + d];
    }
    return sum;
  }

  const Problem& p_;
  const harness::Inputs& in_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::uint64_t, std::vector<std::pair<std::size_t, std::size_t>>> spots_;
};

// ---- P and dS -----------------------------------------------------------------------------------

// An operand that is no input, where the other operand is, along whose rows the product sums: P
// with V or dO, dS with K or Q.
struct Computed {
  bool left = false;     // the operand is A
  const Part* known;     // the other operand
  bool prob = false;     // P, else dS
  bool of_keys = false;  // it is summed over keys, else over queries

  explicit Computed(const Part& a, const Part& b) : left(a.matrix.empty()), known(left ? &b : &a) {
    prob = known->matrix == "V" || known->matrix == "dO";
    of_keys = known->matrix == "V" || known->matrix == "K";
  }
  // An element by its place along the dimension that is not summed over, and along the other.
  float at(const simt::LoggedProduct& log, int free, int k) const {
    return left ? log.a[free * kProductDepth + k] : log.b[k * log.cols + free];
  }
  int extent(const simt::LoggedProduct& log) const { return left ? log.rows : log.cols; }
};

// The first query or key of the operand: where two elements of each of three queries have the ratio
// that P or dS has. -1 if there are no three, or no place fits.
int first_of(const Computed& of, const simt::LoggedProduct& log, const Inputs& inputs, int head,
             const Problem& p) {
  struct Pair {
    int line;  // of the query: free, or along the sum
    int first, second;
    double ratio;
  };
  std::vector<Pair> pairs;
  const int free_extent = of.extent(log), lines = of.of_keys ? free_extent : kProductDepth,
            keys = of.of_keys ? kProductDepth : free_extent;
  const auto at = [&](int line, int key) {
    return of.of_keys ? of.at(log, line, key) : of.at(log, key, line);
  };
  for (int line = 0; line < lines && pairs.size() < 3; ++line) {
    int first = 0, second = 1;
    for (int key = 0; key < keys; ++key) {
      const float size = std::abs(at(line, key));
      if (size > std::abs(at(line, first)))
        second = first, first = key;
      else if (key != first && size > std::abs(at(line, second)))
        second = key;
    }
    if (first == second || std::abs(at(line, second)) < 1e-3f) continue;
    pairs.push_back({line, first, second, at(line, second) / at(line, first)});
  }
  if (pairs.size() < 3) return -1;
  const auto fits = [&](int place, const Pair& pair) {
    const auto known = static_cast<int>(of.known->row);
    const int i = pair.line + (of.of_keys ? place : known), j0 = of.of_keys ? known : place;
    if (i >= p.seq_q || j0 + pair.first >= p.seq_kv || j0 + pair.second >= p.seq_kv) return false;
    const double reference = inputs.score(head, i, j0 + pair.first);
    const double ratio = inputs.value(of.prob, head, i, j0 + pair.second, reference) /
                         inputs.value(of.prob, head, i, j0 + pair.first, reference);
    return std::abs(ratio - pair.ratio) <= 0.05 * std::abs(ratio);
  };
  for (int place = 0; place < (of.of_keys ? p.seq_q : p.seq_kv); place += 8) {
    const auto here = [&](const Pair& pair) { return fits(place, pair); };
    if (std::all_of(pairs.begin(), pairs.end(), here)) return place;
  }
  return -1;
}

void name_computed(Product& product, const Computed& of, int first) {
  const Part& known = *of.known;
  Part& operand = of.left ? product.a : product.b;
  operand.matrix = of.prob ? "P" : "dS";
  operand.turned = of.left != of.of_keys;
  operand.row = of.of_keys ? first : known.row;
  operand.column = static_cast<int>(of.of_keys ? known.row : first);
  const char* const result = known.matrix == "V"    ? "accumulator O"
                             : known.matrix == "dO" ? "accumulator dV"
                             : known.matrix == "Q"  ? "accumulator dK"
                                                    : "accumulator dQ";
  product.d = {result, first, known.column, !of.left};
}

void name_scores(Product& product) {
  const bool of_queries = product.a.matrix == "Q" || product.a.matrix == "dO";
  const bool scores = product.a.matrix == "Q" || product.b.matrix == "Q";
  const Part &queries = of_queries ? product.a : product.b,
             &keys = of_queries ? product.b : product.a;
  product.d = {scores ? "accumulator S" : "accumulator dP", queries.row, static_cast<int>(keys.row),
               !of_queries};
}

// In any tile.
Group warp_of(const Product& product) {
  Group group = group_of(product);
  std::get<3>(group) = -1;
  return group;
}

void mark_continued(std::vector<Product>& products) {
  std::set<std::tuple<Group, std::string, std::int64_t, int>> seen;
  for (Product& product : products) {
    const Part& d = product.d;
    product.continues =
        d.matrix.empty() || !seen.insert({group_of(product), d.matrix, d.row, d.column}).second;
  }
}

// ---- What is like what --------------------------------------------------------------------------

// Joins those of mine and of the stage's that have no partner yet and agree, in order.
template <class Agree>
void join(const std::vector<int>& mine, const std::vector<int>& own, std::vector<Product>& products,
          std::vector<bool>& taken, const Agree& agree) {
  for (const int m : mine) {
    if (products[m].like >= 0) continue;
    for (const int o : own) {
      if (taken[o] || !agree(m, o)) continue;
      products[m].like = o, taken[o] = true;
      break;
    }
  }
}

std::map<Group, std::vector<int>> groups_of(const std::vector<Product>& products) {
  std::map<Group, std::vector<int>> groups;
  for (std::size_t n = 0; n < products.size(); ++n) {
    groups[group_of(products[n])].push_back(static_cast<int>(n));
  }
  return groups;
}

std::vector<Product> products_of(std::vector<simt::LoggedProduct>&& logged) {
  std::vector<Product> products;
  for (simt::LoggedProduct& log : logged) {
    if (!log.d.empty()) products.push_back({std::move(log), {}, {}, {}});  // Else no one waited.
  }
  return products;
}

}  // namespace

std::vector<Product> named_products(std::vector<simt::LoggedProduct> logged, Pass pass,
                                    const Problem& p, const harness::Inputs& in) {
  std::vector<Product> products = products_of(std::move(logged));
  const Inputs inputs(p, in);
  std::map<std::uint64_t, int> head_of;  // of the queries, by block
  // Of operands whose values do not tell, as those of zeros, others of the warp do: those with the
  // same part of the known operand come in the same order.
  using Like = std::tuple<Group, std::string, int>;
  std::map<Like, int> places;
  std::vector<std::pair<Product*, Like>> unknown;
  std::map<Group, std::vector<std::int64_t>> rows_of;  // of Q, by warp
  std::map<std::tuple<Group, std::string, std::int64_t, int>, int> times;
  for (Product& product : products) {
    const simt::LoggedProduct& log = product.log;
    const Place a = inputs.find({log.a, log.rows, kProductDepth}),
                b = inputs.find({log.b, kProductDepth, log.cols});
    product.a = a.part, product.b = b.part;
    for (const Place* place : {&a, &b}) {
      const std::string& name = place->part.matrix;
      if (name == "Q" || name == "dO") head_of[log.at.block] = place->head;
    }
    const bool a_known = !a.part.matrix.empty(), b_known = !b.part.matrix.empty();
    if (a_known && b_known) {
      name_scores(product);
      std::vector<std::int64_t>& rows = rows_of[warp_of(product)];
      const bool is_new = std::count(rows.begin(), rows.end(), a.part.row) == 0;
      if (a.part.matrix == "Q" && is_new) rows.push_back(a.part.row);
    }
    // Summed over the columns of the known one, it is a product of inputs, of which one is all
    // zeros.
    if (a_known == b_known || (a_known ? !a.part.turned : b.part.turned)) continue;
    const Computed of(product.a, product.b);
    const int time =
        times[{group_of(product), of.known->matrix, of.known->row, of.known->column}]++;
    const bool any_tile = pass == CUFLASH_FORWARD || !of.of_keys;
    const Like like = {any_tile ? warp_of(product) : group_of(product), of.known->matrix, time};
    const int first = first_of(of, log, inputs, head_of[log.at.block], p);
    if (first < 0) {
      unknown.push_back({&product, like});
    } else {
      name_computed(product, of, places[like] = first);
    }
  }
  for (const auto& [product, like] : unknown) {
    const auto place = places.find(like);
    // In the forward pass a warp's rows of P are those of its scores.
    const auto& rows = rows_of[warp_of(*product)];
    const auto time = static_cast<std::size_t>(std::get<2>(like));
    const bool has_rows = pass == CUFLASH_FORWARD && time < rows.size();
    if (place == places.end() && !has_rows) continue;
    name_computed(*product, Computed(product->a, product->b),
                  place != places.end() ? place->second : static_cast<int>(rows[time]));
  }
  mark_continued(products);
  return products;
}

std::vector<Product> products_like(std::vector<simt::LoggedProduct> logged,
                                   const std::vector<Product>& own) {
  std::vector<Product> products = products_of(std::move(logged));
  const auto same_a = [&](int m, int o) { return products[m].log.a == own[o].log.a; };
  const auto same_b = [&](int m, int o) { return products[m].log.b == own[o].log.b; };
  std::vector<bool> taken(own.size());
  const auto own_groups = groups_of(own);
  for (const auto& [group, mine] : groups_of(products)) {
    const auto theirs = own_groups.find(group);
    if (theirs == own_groups.end()) continue;
    join(mine, theirs->second, products, taken,
         [&](int m, int o) { return same_a(m, o) && same_b(m, o); });
    // What a wrong product takes may be what another one should.
    const bool all =
        std::all_of(mine.begin(), mine.end(), [&](int m) { return products[m].like >= 0; });
    const bool in_step =
        std::equal(mine.begin(), mine.end(), theirs->second.begin(), theirs->second.end(),
                   [&](int m, int o) { return same_a(m, o) || same_b(m, o); });
    for (std::size_t n = 0; in_step && !all && n < mine.size(); ++n) {
      products[mine[n]].like = theirs->second[n], taken[theirs->second[n]] = true;
    }
    join(mine, theirs->second, products, taken,
         [&](int m, int o) { return same_a(m, o) || same_b(m, o); });
    join(mine, theirs->second, products, taken, [](int, int) { return true; });
    // In another order an accumulator holds other sums on the way.
    bool in_order = mine.size() == theirs->second.size();
    for (std::size_t n = 0; in_order && n < mine.size(); ++n) {
      in_order = products[mine[n]].like == theirs->second[n];
    }
    for (const int m : mine) {
      if (products[m].like < 0) continue;
      const Product& like = own[products[m].like];
      products[m].a = like.a, products[m].b = like.b, products[m].d = like.d;
      products[m].continues = like.continues || !in_order;
    }
  }
  return products;
}

}  // namespace cuflash::exercises
