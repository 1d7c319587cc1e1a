// Attention forward and backward from Rust, compared with plain loops. To build and run it:
//   rustc attention.rs -L <where cuflash is installed>/lib -l cuflash_attn
//   LD_LIBRARY_PATH=<where cuflash is installed>/lib ./attention
//
// This program gives the library its own memory, as the CPU simulator's library wants it. For a GPU,
// pass pointers that cudaMalloc returned, and copy to and from them; nothing else changes.
use std::ffi::{c_char, c_int, c_void, CStr};
use std::mem::size_of;
use std::ptr::{null, null_mut};

// ---- cuflash/c_api.h ---------------------------------------------------------------------------

const CUFLASH_F32: i32 = 0;
const CUFLASH_FORWARD: c_int = 0;
const CUFLASH_BACKWARD: c_int = 1;

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    batch_stride: i64,
    head_stride: i64,
    row_stride: i64,
}

#[repr(C)]
struct Problem {
    size: u32,
    batch: i32,
    heads_q: i32,
    heads_kv: i32,
    seq_q: i32,
    seq_kv: i32,
    head_dim: i32,
    dtype: i32,
    causal: i32,
    softmax_scale: f32,
    window_left: i32,
    window_right: i32,
}

#[repr(C)]
struct ForwardArgs {
    size: u32,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: *mut f32,
    workspace: *mut c_void,
    workspace_bytes: u64,
}

#[repr(C)]
struct BackwardArgs {
    size: u32,
    deterministic: i32,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    d_o: Tensor,
    dq: Tensor,
    dk: Tensor,
    dv: Tensor,
    lse: *const f32,
    workspace: *mut c_void,
    workspace_bytes: u64,
}

const _: () = assert!(size_of::<Tensor>() == 32);
const _: () = assert!(size_of::<Problem>() == 48);
const _: () = assert!(size_of::<ForwardArgs>() == 160);
const _: () = assert!(size_of::<BackwardArgs>() == 288);

#[rustfmt::skip]
extern "C" {
    fn cuflash_attention_forward_f32(
        q: *const f32, k: *const f32, v: *const f32, o: *mut f32, l: *mut f32,
        batch_size: c_int, num_heads: c_int, seq_len: c_int, head_dim: c_int,
        scale: f32, causal: bool, stream: *mut c_void) -> c_int;
    fn cuflash_forward(
        problem: *const Problem, args: *const ForwardArgs, stage: *const c_char,
        stream: *mut c_void) -> c_int;
    fn cuflash_backward(
        problem: *const Problem, args: *const BackwardArgs, stage: *const c_char,
        stream: *mut c_void) -> c_int;
    fn cuflash_chosen_stage(
        pass: c_int, problem: *const Problem, stage: *const c_char) -> *const c_char;
    fn cuflash_last_error_message() -> *const c_char;
}

fn text(s: *const c_char) -> String {
    if s.is_null() {
        return "none".to_string();
    }
    unsafe { CStr::from_ptr(s) }.to_string_lossy().into_owned()
}

fn check(error: c_int) {
    if error != 0 {
        eprintln!("{}", text(unsafe { cuflash_last_error_message() }));
        std::process::exit(1);
    }
}

// ---- The expected results ----------------------------------------------------------------------

const HEADS: usize = 2;
const SEQ: usize = 64;
const DIM: usize = 64;
const ROWS: usize = HEADS * SEQ;

fn dot(x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).map(|(&a, &b)| a as f64 * b as f64).sum()
}

/// O = softmax(scale Q K^T) V of one batch with a causal mask, in double.
fn plain(scale: f64, q: &[f32], k: &[f32], v: &[f32]) -> Vec<f64> {
    let row = |n: usize| n * DIM..(n + 1) * DIM;
    let mut o = vec![0.0; ROWS * DIM];
    for i in 0..ROWS {
        let mut sum = 0.0;
        for j in i / SEQ * SEQ..=i {
            let weight = (scale * dot(&q[row(i)], &k[row(j)])).exp();
            o[row(i)].iter_mut().zip(&v[row(j)]).for_each(|(o, &v)| *o += weight * v as f64);
            sum += weight;
        }
        o[row(i)].iter_mut().for_each(|o| *o /= sum);
    }
    o
}

/// The largest magnitude, or NaN if there is one.
fn worst(errors: impl Iterator<Item = f64>) -> f64 {
    errors.fold(0.0, |worst, e| if e.abs() <= worst || worst.is_nan() { worst } else { e.abs() })
}

fn distance(result: &[f32], expected: &[f64]) -> f64 {
    worst(result.iter().zip(expected).map(|(&r, e)| r as f64 - e))
}

/// Fails unless `error` is at most `tolerance`; a NaN fails.
fn report(what: &str, error: f64, tolerance: f64) {
    println!("{what}: max |error| {error:.1e}, tolerance {tolerance:.0e}");
    if !(error <= tolerance) {
        std::process::exit(1);
    }
}

/// Numbers in [-1, 1), the same in every run (a linear congruential generator).
fn random(seed: &mut u64) -> Vec<f32> {
    let mut next = || {
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*seed >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..ROWS * DIM).map(|_| next()).collect()
}

/// [batch, heads, seq, head_dim] without gaps. An output's pointer comes from as_mut_ptr().
fn contiguous(data: *const f32) -> Tensor {
    let (batch_stride, head_stride) = ((HEADS * SEQ * DIM) as i64, (SEQ * DIM) as i64);
    Tensor { data: data as *mut c_void, batch_stride, head_stride, row_stride: DIM as i64 }
}

fn main() {
    let mut seed = 1;
    let (q, k, v) = (random(&mut seed), random(&mut seed), random(&mut seed));
    let d_o = random(&mut seed);
    let zeros = || vec![0f32; ROWS * DIM];
    let (mut o, mut dq, mut dk, mut dv) = (zeros(), zeros(), zeros(), zeros());
    let mut lse = vec![0f32; ROWS];
    let scale = 1.0 / (DIM as f32).sqrt();
    let stream = null_mut(); // the default stream

    // The simple form: contiguous [batch_size, num_heads, seq_len, head_dim].
    let (heads, seq, dim) = (HEADS as c_int, SEQ as c_int, DIM as c_int);
    let (q_in, k_in, v_in, o_out, l_out) =
        (q.as_ptr(), k.as_ptr(), v.as_ptr(), o.as_mut_ptr(), lse.as_mut_ptr());
    #[rustfmt::skip]
    check(unsafe { cuflash_attention_forward_f32(
        q_in, k_in, v_in, o_out, l_out, 1, heads, seq, dim, scale, true, stream) });
    report("O", distance(&o, &plain(scale as f64, &q, &k, &v)), 3e-6);

    // The full form: it also takes grouped heads, other lengths and any strides.
    let problem = Problem {
        size: size_of::<Problem>() as u32,
        batch: 1,
        heads_q: heads,
        heads_kv: heads,
        seq_q: seq,
        seq_kv: seq,
        head_dim: dim,
        dtype: CUFLASH_F32,
        causal: 1,
        softmax_scale: scale,
        window_left: -1, // no window
        window_right: -1,
    };
    let mut full_o = zeros();
    let forward = ForwardArgs {
        size: size_of::<ForwardArgs>() as u32,
        q: contiguous(q.as_ptr()),
        k: contiguous(k.as_ptr()),
        v: contiguous(v.as_ptr()),
        o: contiguous(full_o.as_mut_ptr()),
        lse: lse.as_mut_ptr(),
        workspace: null_mut(),
        workspace_bytes: 0,
    };
    check(unsafe { cuflash_forward(&problem, &forward, null(), stream) });
    let both: Vec<f64> = o.iter().map(|&x| x as f64).collect();
    report("O of the full form, against the simple form's", distance(&full_o, &both), 0.0);

    let backward = BackwardArgs {
        size: size_of::<BackwardArgs>() as u32,
        deterministic: 1,
        q: contiguous(q.as_ptr()),
        k: contiguous(k.as_ptr()),
        v: contiguous(v.as_ptr()),
        o: contiguous(full_o.as_ptr()),
        d_o: contiguous(d_o.as_ptr()),
        dq: contiguous(dq.as_mut_ptr()),
        dk: contiguous(dk.as_mut_ptr()),
        dv: contiguous(dv.as_mut_ptr()),
        lse: lse.as_ptr(),
        workspace: null_mut(),
        workspace_bytes: 0,
    };
    check(unsafe { cuflash_backward(&problem, &backward, null(), stream) });
    for (pass, name) in [(CUFLASH_FORWARD, "forward"), (CUFLASH_BACKWARD, "backward")] {
        println!("{name} {}", text(unsafe { cuflash_chosen_stage(pass, &problem, null()) }));
    }

    // The loss dO . O is linear in V, so dV . V is the loss. Q and K appear only in scale Q K^T, so
    // dQ . Q and dK . K both equal scale d(loss)/d(scale), here by a central difference.
    let loss = |factor: f64| {
        let o = plain(factor * scale as f64, &q, &k, &v);
        o.iter().zip(&d_o).map(|(o, &g)| o * g as f64).sum::<f64>()
    };
    let slope = (loss(1.001) - loss(0.999)) / 0.002;
    let along = [dot(&dq, &q) - slope, dot(&dk, &k) - slope, dot(&dv, &v) - loss(1.0)];
    report("dQ, dK, dV along Q, K, V", worst(along.iter().copied()), 1e-4);
}
