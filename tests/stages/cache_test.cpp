// The tests of a call with a cache of keys.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <random>

#include "cuflash/workload.h"
#include "harness/reference_outputs.h"
#include "stage_test.h"
#include "support/expect.h"

namespace cuflash::tests {
namespace {

using harness::CallOptions;
using harness::Inputs;
using harness::Outputs;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The caches and the queries of a batch, and of each sequence its results.
struct Batch {
  Problem problem;
  Inputs inputs;
  CallOptions options;
  std::vector<std::shared_ptr<const harness::ReferenceOutputs>> want;
};

// The problem of one sequence with so many keys.
Problem sequence_of(const Problem& batch, int num_keys) {
  Problem p = in_pages(batch, 0);
  p.batch = 1;
  p.seq_kv = num_keys;
  p.split_keys = p.num_splits = 0;  // of no concern to the oracle
  return p;
}

// The elements of one sequence in a tensor of `batch`.
template <class Values>
Values part_of(const Values& values, int batch, int b) {
  const std::size_t size = values.size() / batch;
  return Values(values.begin() + b * size, values.begin() + (b + 1) * size);
}

// The cache of a sequence.
int cache_of(const Problem& p, int b) { return p.page_size != 0 ? b : p.batch - 1 - b; }

// Sequence b has its keys begin[b], …, end[b] − 1 in its cache. All else is NaN.
Batch make_batch(const Problem& p, const std::vector<int>& begin, const std::vector<int>& end) {
  Batch batch;
  batch.problem = p;
  const std::size_t head = std::size_t(p.seq_kv) * p.head_dim;
  for (auto* cache : {&batch.inputs.k, &batch.inputs.v}) {
    cache->assign(p.batch * p.heads_kv * head, kNaN);
  }
  for (int b = 0; b < p.batch; ++b) {
    const int num_keys = end[b] - begin[b], cache = cache_of(p, b);
    harness::InputSource source;
    source.seed = 1 + b;
    auto want = harness::reference_outputs(CUFLASH_FORWARD, sequence_of(p, num_keys), source);
    const Inputs& own = want->inputs;
    batch.inputs.q.insert(batch.inputs.q.end(), own.q.begin(), own.q.end());
    const std::size_t own_head = std::size_t(num_keys) * p.head_dim;
    for (int h = 0; h < p.heads_kv; ++h) {
      const std::size_t to = (cache * p.heads_kv + h) * head + std::size_t(begin[b]) * p.head_dim;
      std::copy_n(&own.k[h * own_head], own_head, &batch.inputs.k[to]);
      std::copy_n(&own.v[h * own_head], own_head, &batch.inputs.v[to]);
    }
    batch.want.push_back(std::move(want));
    batch.options.cache.k_begin.push_back(begin[b]);
    batch.options.cache.seqused_k.push_back(end[b]);
    if (p.page_size == 0) batch.options.cache.kv_batch.push_back(cache);
  }
  return batch;
}

// The keys of `batch` sequences: some that fill their cache, some of one key, the others of any
// number, with and without padding.
Batch any_batch(const Problem& p, unsigned seed) {
  std::mt19937 bits(seed);
  const auto from = [&](int first, int last) {
    return first + static_cast<int>(bits() % static_cast<unsigned>(last - first + 1));
  };
  std::vector<int> begin, end;
  for (int b = 0; b < p.batch; ++b) {
    end.push_back(b == 0 ? p.seq_kv : from(1, p.seq_kv));
    begin.push_back(b % 2 == 0 ? 0 : b % 4 == 1 ? end[b] - 1 : from(0, end[b] - 1));
  }
  return make_batch(p, begin, end);
}

Outputs run(const Stage& stage, const Batch& batch) {
  return harness::run(stage, CUFLASH_FORWARD, batch.problem, batch.inputs, batch.options);
}

Outputs outputs_of(const Outputs& all, int batch, int b) {
  Outputs own;
  for (const auto& [name, values] : all.tensors) own.tensors[name] = part_of(values, batch, b);
  return own;
}

// The results of query i of query head h alone.
Outputs row_alone(const Stage& stage, const Batch& batch, int b, int h, int i) {
  const Problem& p = batch.problem;
  const int hk = h / (p.heads_q / p.heads_kv), cache = cache_of(p, b);
  // The last query of a causal problem is the one that sees all keys.
  const int hidden = p.causal ? p.seq_q - 1 - i : 0;
  Batch alone;
  alone.problem = in_pages(p, 0);
  alone.problem.batch = alone.problem.heads_q = alone.problem.heads_kv = 1;
  alone.problem.seq_q = 1;
  const std::size_t head = std::size_t(p.seq_kv) * p.head_dim;
  const auto slice = [](const std::vector<float>& from, std::size_t begin, std::size_t count) {
    return std::vector<float>(from.begin() + begin, from.begin() + begin + count);
  };
  alone.inputs.q = slice(batch.inputs.q,
                         ((std::size_t(b) * p.heads_q + h) * p.seq_q + i) * p.head_dim, p.head_dim);
  // A larger cache, of which the end is not used.
  alone.problem.seq_kv = p.seq_kv + 100;
  for (auto [from, to] :
       {std::pair(&batch.inputs.k, &alone.inputs.k), std::pair(&batch.inputs.v, &alone.inputs.v)}) {
    *to = slice(*from, (std::size_t(cache) * p.heads_kv + hk) * head, head);
    to->resize(to->size() + std::size_t{100} * p.head_dim, kNaN);
  }
  alone.options.cache.seqused_k = {batch.options.cache.seqused_k[b] - hidden};
  alone.options.cache.k_begin = {batch.options.cache.k_begin[b]};
  return run(stage, alone);
}

}  // namespace

void computes_with_lengths(const Stage& stage, const Problem& problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, CUFLASH_FORWARD, problem);
  Batch batch = any_batch(problem, 1);
  for (const int sms : {0, 1, 3}) {
    SCOPED_TRACE(std::to_string(sms) + " SMs");
    batch.options.sms = sms;
    const Outputs got = run(stage, batch);
    EXPECT_EQ(got.damage, "");
    for (int b = 0; b < problem.batch; ++b) {
      SCOPED_TRACE("sequence " + std::to_string(b) + ", keys " +
                   std::to_string(batch.options.cache.k_begin[b]) + " to " +
                   std::to_string(batch.options.cache.seqused_k[b] - 1));
      expect_right(outputs_of(got, problem.batch, b), *batch.want[b]);
    }
  }
}

void computes_without_keys(const Stage& stage, const Problem& problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, CUFLASH_FORWARD, problem);
  ASSERT_EQ(problem.batch, 4);
  Batch batch = any_batch(problem, 1);
  batch.options.cache.seqused_k[1] = 0;
  batch.options.cache.seqused_k[2] = -1;
  batch.options.cache.seqused_k[3] = problem.seq_kv + 1;
  const Outputs got = run(stage, batch);
  expect_right(outputs_of(got, 4, 0), *batch.want[0]);
  const Outputs empty = outputs_of(got, 4, 1);
  for (const float x : empty.tensors.at("O")) ASSERT_EQ(x, 0.f);
  for (const float x : empty.tensors.at("LSE")) ASSERT_EQ(x, -INFINITY);
  for (const int b : {2, 3}) {
    for (const auto& [name, values] : outputs_of(got, 4, b).tensors) {
      for (const float x : values) ASSERT_TRUE(std::isnan(x)) << name << " of sequence " << b;
    }
  }
}

void spreads_nan(const Stage& stage, const Problem& problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, CUFLASH_FORWARD, problem);
  Batch batch = any_batch(problem, 1);
  // The first value of the first key of sequence 1 in its KV head 0.
  const int key = batch.options.cache.k_begin[1], cache = cache_of(problem, 1);
  const std::size_t head = std::size_t(problem.seq_kv) * problem.head_dim;
  batch.inputs.v[cache * problem.heads_kv * head + std::size_t(key) * problem.head_dim] = kNaN;
  const Outputs got = run(stage, batch);
  expect_right(outputs_of(got, problem.batch, 0), *batch.want[0]);
  const std::vector<float> o = outputs_of(got, problem.batch, 1).tensors.at("O");
  const int rows = problem.heads_q / problem.heads_kv * problem.seq_q;  // of a KV head
  for (int row = 0; row < rows * problem.heads_kv; ++row) {
    EXPECT_EQ(std::isnan(o[std::size_t(row) * problem.head_dim]), row < rows) << "row " << row;
  }
}

namespace {

// Sequence 0 and no other has NaN, in the rows that see a key of its last page.
void expect_missing_last_page(const Problem& p, int pages, const Outputs& got) {
  const int first_key = (pages - 1) * p.page_size;
  for (const auto& [name, values] : got.tensors) {
    const int width = name == std::string("O") ? p.head_dim : 1;
    for (std::size_t n = 0; n < values.size(); ++n) {
      const int i = static_cast<int>(n / width % p.seq_q);
      const bool is_first = n / width < std::size_t(p.heads_q) * p.seq_q;
      const bool sees = is_first && (!p.causal || p.seq_kv - p.seq_q + i >= first_key);
      ASSERT_EQ(std::isnan(values[n]), sees) << name << ", element " << n;
    }
  }
  if (!simt::counts_accesses()) return;
  const std::vector<simt::Finding> findings = simt::take_findings();
  ASSERT_FALSE(findings.empty());
  for (const simt::Finding& finding : findings) {
    EXPECT_EQ(static_cast<int>(finding.kind()), static_cast<int>(simt::FindingKind::kMissingPage))
        << finding.message();
  }
}

}  // namespace

void misses_pages(const Stage& stage, const Problem& problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, CUFLASH_FORWARD, problem);
  ASSERT_EQ(problem.batch, 3);
  ASSERT_EQ(problem.window_left, -1);
  const int half = problem.seq_kv / 2, pages = problem.pages_per_seq;
  Batch batch = make_batch(problem, {0, 0, 0}, {problem.seq_kv, half, half});
  // Sequences 0 and 2 lack their last page. Sequence 2 has no key in it, so it needs none.
  const std::vector<std::int32_t> whole = harness::block_table(problem);
  for (const int nowhere : {-1, problem.num_pages, std::numeric_limits<int>::max()}) {
    SCOPED_TRACE("page " + std::to_string(nowhere));
    (void)simt::take_findings();
    auto& table = batch.options.cache.block_table = whole;
    table[pages - 1] = table[3 * pages - 1] = nowhere;
    expect_missing_last_page(problem, pages, run(stage, batch));
  }
  SCOPED_TRACE("a table without an entry for the last page");
  batch.problem.pages_per_seq = pages - 1;
  batch.options.cache.block_table = harness::block_table(batch.problem);
  expect_missing_last_page(problem, pages, run(stage, batch));
}

void shares_pages(const Stage& stage, const Problem& problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, CUFLASH_FORWARD, problem);
  // All sequences begin with the pages of sequence 0.
  Batch batch = any_batch(problem, 1);
  batch.options.cache = {};
  const std::size_t shared = std::size_t(problem.page_size) * 2 * problem.head_dim;
  const std::size_t head = std::size_t(problem.seq_kv) * problem.head_dim;
  for (auto* cache : {&batch.inputs.k, &batch.inputs.v}) {
    std::replace_if(
        cache->begin(), cache->end(), [](float x) { return std::isnan(x); }, 0.5f);
    for (std::size_t at = 0; at < cache->size(); at += head) {
      std::copy_n(cache->begin() + at % (head * problem.heads_kv), shared, cache->begin() + at);
    }
  }
  const Outputs want = run(stage, batch);
  auto& table = batch.options.cache.block_table = harness::block_table(problem);
  for (int b = 1; b < problem.batch; ++b) {
    std::copy_n(table.begin(), 2, table.begin() + b * problem.pages_per_seq);
  }
  EXPECT_EQ(first_difference(want, run(stage, batch)), "");
}

void gives_a_row_the_same_bits(const Stage& stage, const Problem& problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, CUFLASH_FORWARD, problem);
  constexpr unsigned kBatches = simt::kSimulated ? 2 : 70;
  constexpr int kRows = simt::kSimulated ? 6 : 40;  // of a batch
  for (unsigned seed = 1; seed <= kBatches; ++seed) {
    const Batch batch = any_batch(problem, seed);
    const Outputs all = run(stage, batch);
    std::mt19937 bits(seed);
    for (int n = 0; n < kRows; ++n) {
      const int i = static_cast<int>(bits() % problem.seq_q);
      const int h = static_cast<int>(bits() % problem.heads_q);
      const int b = static_cast<int>(bits() % problem.batch);
      // A query that sees no key has no problem of its own.
      if (problem.causal && batch.options.cache.seqused_k[b] < problem.seq_q) continue;
      const std::size_t row = (std::size_t(b) * problem.heads_q + h) * problem.seq_q + i;
      const auto& o = all.tensors.at("O");
      Outputs in_batch;
      in_batch.tensors["O"] = {o.begin() + row * problem.head_dim,
                               o.begin() + (row + 1) * problem.head_dim};
      in_batch.tensors["LSE"] = {all.tensors.at("LSE")[row]};
      EXPECT_EQ(first_difference(in_batch, row_alone(stage, batch, b, h, i)), "")
          << "batch of seed " << seed << ", sequence " << b << ", head " << h << ", query " << i;
    }
  }
}

}  // namespace cuflash::tests
