//! Counting and divisibility over whole numbers held in floats.
//!
//! Owns what needs a loop. Refuses fractions and numbers beyond 2^53, where floats skip whole numbers.
//!
//! INVARIANT: every loop ends within 1100 steps, because the product it builds leaves the floats by then.

const EXACT: f64 = 9_007_199_254_740_992.0;

/// Refuses what isn't a whole number.
fn whole(x: f64) -> Result<f64, &'static str> {
    if x.fract() == 0.0 && x.abs() <= EXACT { Ok(x) } else { Err("a whole number up to 2^53 is needed") }
}

/// Refuses what can't be counted.
fn count(x: f64) -> Result<f64, &'static str> {
    if x < 0.0 { Err("a count can't be negative") } else { whole(x) }
}

pub(crate) fn factorial(n: f64) -> Result<f64, &'static str> {
    permutation(n, n)
}

pub(crate) fn permutation(n: f64, k: f64) -> Result<f64, &'static str> {
    let (n, k) = chosen(n, k)?;
    let mut product = 1.0;
    let mut taken = 0.0;
    while taken < k && f64::is_finite(product) {
        product *= n - taken;
        taken += 1.0;
    }
    Ok(product)
}

pub(crate) fn choose(n: f64, k: f64) -> Result<f64, &'static str> {
    let (n, k) = chosen(n, k)?;
    let k = k.min(n - k);
    let mut product = 1.0;
    let mut taken = 0.0;
    while taken < k && f64::is_finite(product) {
        taken += 1.0;
        // In this order each step is a whole number, so nothing is rounded below 2^53.
        product = product * (n - k + taken) / taken;
    }
    Ok(product)
}

fn chosen(n: f64, k: f64) -> Result<(f64, f64), &'static str> {
    let (n, k) = (count(n)?, count(k)?);
    if k > n { Err("more are chosen than there are") } else { Ok((n, k)) }
}

pub(crate) fn gcd(a: f64, b: f64) -> Result<f64, &'static str> {
    let (mut a, mut b) = (whole(a)?.abs(), whole(b)?.abs());
    while b != 0.0 {
        (a, b) = (b, a % b);
    }
    Ok(a)
}

pub(crate) fn lcm(a: f64, b: f64) -> Result<f64, &'static str> {
    let divisor = gcd(a, b)?;
    Ok(if divisor == 0.0 { 0.0 } else { (a / divisor * b).abs() })
}

#[cfg(test)]
mod tests {
    use super::{choose, factorial, gcd, lcm, permutation};

    #[test]
    fn counts_are_exact() {
        assert_eq!(factorial(0.0), Ok(1.0));
        assert_eq!(factorial(20.0), Ok(2_432_902_008_176_640_000.0));
        assert_eq!(choose(52.0, 5.0), Ok(2_598_960.0));
        assert_eq!(choose(50.0, 25.0), Ok(126_410_606_437_752.0));
        assert_eq!(choose(9e15, 1.0), Ok(9e15));
        assert_eq!(permutation(10.0, 3.0), Ok(720.0));
    }

    #[test]
    fn divisors() {
        assert_eq!(gcd(84.0, -36.0), Ok(12.0));
        assert_eq!(gcd(0.0, 0.0), Ok(0.0));
        assert_eq!(lcm(4.0, 6.0), Ok(12.0));
        assert_eq!(lcm(0.0, 6.0), Ok(0.0));
    }
}
