//! The table of operations.
//!
//! Owns names, parameters in MathQA's positional order, formulas and the conditions under which a formula
//! has a value. Refuses to convert units: angles are in radians unless the description says degrees.
//!
//! INVARIANT: a formula returns an error where it has no value; overflow is left to the caller.

use std::f64::consts::PI;

use crate::combinatorics::{choose, factorial, gcd, lcm, permutation};

/// One tool.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) parameters: &'static [&'static str],
    pub(crate) description: &'static str,
    pub(crate) run: fn(&[f64]) -> Result<f64, &'static str>,
}

macro_rules! operations {
    ($($about:literal $name:ident($($parameter:ident),+) $formula:literal => $run:expr;)*) => {
        pub(crate) const OPERATIONS: &[Operation] = &[$(Operation {
            name: stringify!($name),
            parameters: &[$(stringify!($parameter)),+],
            description: concat!($about, ": ", $formula),
            run: |numbers| match *numbers {
                [$($parameter),+] => $run,
                _ => Err("another number of arguments is needed"),
            },
        }),*];
    };
}

operations! {
    "Adds" add(a, b) "a + b" => Ok(a + b);
    "Subtracts" subtract(a, b) "a - b" => Ok(a - b);
    "Multiplies" multiply(a, b) "a * b" => Ok(a * b);
    "Divides" divide(a, b) "a / b" => quotient(a, b);
    "Remainder of a division, with the sign of the divisor" reminder(a, b) "a - b * floor(a / b)" => reminder(a, b);
    "Changes the sign" negate(a) "-a" => Ok(-a);
    "Reciprocal" inverse(a) "1 / a" => quotient(1.0, a);
    "Largest whole number not above" floor(a) "floor(a)" => Ok(a.floor());
    "Larger of two" max(a, b) "max(a, b)" => Ok(a.max(b));
    "Smaller of two" min(a, b) "min(a, b)" => Ok(a.min(b));
    "Raises to a power" power(base, exponent) "base ^ exponent" => power(base, exponent);
    "Square root" sqrt(a) "a ^ (1/2)" => root(a);
    "Natural logarithm" log(a) "ln(a)" => log(a);
    "Sine of an angle in radians" sine(angle) "sin(angle)" => Ok(angle.sin());
    "Cosine of an angle in radians" cosine(angle) "cos(angle)" => Ok(angle.cos());
    "Tangent of an angle in radians" tangent(angle) "tan(angle)" => Ok(angle.tan());
    "Factorial of a whole number" factorial(n) "n!" => factorial(n);
    "Number of ways to choose k of n" choose(n, k) "n! / (k! * (n - k)!)" => choose(n, k);
    "Number of ways to arrange k of n" permutation(n, k) "n! / (n - k)!" => permutation(n, k);
    "Greatest common divisor" gcd(a, b) "gcd(a, b)" => gcd(a, b);
    "Least common multiple" lcm(a, b) "|a * b| / gcd(a, b)" => lcm(a, b);
    "Probability of the opposite" negate_prob(probability) "1 - probability" => opposite(probability);

    "Area of a square" square_area(side) "side ^ 2" => Ok(side * side);
    "Perimeter of a square" square_perimeter(side) "4 * side" => Ok(4.0 * side);
    "Side of a square of an area" square_edge_by_area(area) "area ^ (1/2)" => root(area);
    "Side of a square of a perimeter" square_edge_by_perimeter(perimeter) "perimeter / 4" => Ok(perimeter / 4.0);
    "Area of a rectangle" rectangle_area(length, width) "length * width" => Ok(length * width);
    "Perimeter of a rectangle" rectangle_perimeter(length, width) "2 * (length + width)" => Ok(2.0 * (length + width));
    "Diagonal of a rectangle" diagonal(length, width) "(length ^ 2 + width ^ 2) ^ (1/2)" => Ok(length.hypot(width));
    "Area of a rhombus" rhombus_area(diagonal_1, diagonal_2) "diagonal_1 * diagonal_2 / 2" => Ok(diagonal_1 * diagonal_2 / 2.0);
    "Perimeter of a rhombus" rhombus_perimeter(side) "4 * side" => Ok(4.0 * side);
    "Area of a quadrilateral from a diagonal and its two offsets" quadrilateral_area(diagonal, offset_1, offset_2)
        "diagonal * (offset_1 + offset_2) / 2" => Ok(diagonal * (offset_1 + offset_2) / 2.0);
    "Area of a triangle" triangle_area(base, height) "base * height / 2" => Ok(base * height / 2.0);
    "Area of a triangle of three sides, with s = (a + b + c) / 2" triangle_area_three_edges(a, b, c)
        "(s * (s - a) * (s - b) * (s - c)) ^ (1/2)" => triangle(a, b, c);
    "Perimeter of a triangle" triangle_perimeter(a, b, c) "a + b + c" => Ok(a + b + c);
    "Area of a circle" circle_area(radius) "pi * radius ^ 2" => Ok(PI * radius * radius);
    "Circumference of a circle" circumface(radius) "2 * pi * radius" => Ok(2.0 * PI * radius);
    "Length of an arc of an angle in degrees" circle_arc(radius, angle)
        "2 * pi * radius * angle / 360" => Ok(2.0 * PI * radius * angle / 360.0);
    "Perimeter of a half circle" semi_circle_perimiter(radius) "pi * radius + 2 * radius" => Ok(PI * radius + 2.0 * radius);

    "Volume of a cube" volume_cube(edge) "edge ^ 3" => Ok(edge.powi(3));
    "Edge of a cube of a volume" cube_edge_by_volume(volume) "volume ^ (1/3)" => Ok(volume.cbrt());
    "Surface of a cube" surface_cube(edge) "6 * edge ^ 2" => Ok(6.0 * edge * edge);
    "Volume of a box" volume_rectangular_prism(length, width, height)
        "length * width * height" => Ok(length * width * height);
    "Surface of a box" surface_rectangular_prism(length, width, height)
        "2 * (length * width + length * height + width * height)"
        => Ok(2.0 * (length * width + length * height + width * height));
    "Volume of a cylinder" volume_cylinder(radius, height) "pi * radius ^ 2 * height" => Ok(PI * radius * radius * height);
    "Surface of a cylinder" surface_cylinder(radius, height)
        "2 * pi * radius * (radius + height)" => Ok(2.0 * PI * radius * (radius + height));
    "Volume of a cone" volume_cone(radius, height) "pi * radius ^ 2 * height / 3" => Ok(PI * radius * radius * height / 3.0);
    "Volume of a sphere" volume_sphere(radius) "4 / 3 * pi * radius ^ 3" => Ok(4.0 / 3.0 * PI * radius.powi(3));
    "Surface of a sphere" surface_sphere(radius) "4 * pi * radius ^ 2" => Ok(4.0 * PI * radius * radius);

    "Speed" speed(distance, time) "distance / time" => quotient(distance, time);
    "Speed of a stream" stream_speed(downstream, upstream) "(downstream - upstream) / 2" => Ok((downstream - upstream) / 2.0);
    "Speed of a boat in still water" speed_in_still_water(downstream, upstream)
        "(downstream + upstream) / 2" => Ok((downstream + upstream) / 2.0);
    "Price before a gain" original_price_before_gain(gain_percent, selling_price)
        "selling_price * 100 / (100 + gain_percent)" => quotient(selling_price * 100.0, 100.0 + gain_percent);
    "Price before a loss" original_price_before_loss(loss_percent, selling_price)
        "selling_price * 100 / (100 - loss_percent)" => quotient(selling_price * 100.0, 100.0 - loss_percent);
    "Price after a gain" p_after_gain(gain_percent, price)
        "price * (1 + gain_percent / 100)" => Ok(price * (1.0 + gain_percent / 100.0));
}

fn quotient(a: f64, b: f64) -> Result<f64, &'static str> {
    if b == 0.0 { Err("division by zero") } else { Ok(a / b) }
}

fn reminder(a: f64, b: f64) -> Result<f64, &'static str> {
    if b == 0.0 {
        return Err("division by zero");
    }
    let rest = a % b;
    Ok(if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest })
}

fn root(a: f64) -> Result<f64, &'static str> {
    if a < 0.0 { Err("a negative number has no real square root") } else { Ok(a.sqrt()) }
}

fn log(a: f64) -> Result<f64, &'static str> {
    if a <= 0.0 { Err("only a positive number has a logarithm") } else { Ok(a.ln()) }
}

fn power(base: f64, exponent: f64) -> Result<f64, &'static str> {
    if base == 0.0 && exponent < 0.0 {
        return Err("division by zero");
    }
    if base < 0.0 && exponent.fract() != 0.0 {
        return Err("a negative number has no real power of a fraction");
    }
    Ok(base.powf(exponent))
}

fn opposite(probability: f64) -> Result<f64, &'static str> {
    if (0.0..=1.0).contains(&probability) {
        Ok(1.0 - probability)
    } else {
        Err("a probability lies between 0 and 1")
    }
}

fn triangle(a: f64, b: f64, c: f64) -> Result<f64, &'static str> {
    let s = (a + b + c) / 2.0;
    if a < 0.0 || b < 0.0 || c < 0.0 || s < a || s < b || s < c {
        return Err("no triangle has these sides");
    }
    Ok((s * (s - a) * (s - b) * (s - c)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::OPERATIONS;

    /// Operation, arguments in positional order, result.
    const CASES: &[(&str, &[f64], f64)] = &[
        ("add", &[28.0, 1.0], 29.0),
        ("subtract", &[1.0, 1.0 / 3.0], 0.666_666_666_666_666_7),
        ("multiply", &[1.4, 1600.0], 2240.0),
        ("divide", &[140.0, 100.0], 1.4),
        ("reminder", &[-7.0, 3.0], 2.0),
        ("negate", &[3.0], -3.0),
        ("inverse", &[0.05], 20.0),
        ("floor", &[-1.5], -2.0),
        ("max", &[1.0, 2.0], 2.0),
        ("min", &[1.0, 2.0], 1.0),
        ("power", &[0.5, 3.0], 0.125),
        ("sqrt", &[576.0], 24.0),
        ("log", &[1.0], 0.0),
        ("sine", &[0.0], 0.0),
        ("cosine", &[0.0], 1.0),
        ("tangent", &[0.0], 0.0),
        ("factorial", &[5.0], 120.0),
        ("choose", &[5.0, 2.0], 10.0),
        ("permutation", &[5.0, 2.0], 20.0),
        ("gcd", &[12.0, 18.0], 6.0),
        ("lcm", &[4.0, 6.0], 12.0),
        ("negate_prob", &[0.25], 0.75),
        ("square_area", &[100.0], 10_000.0),
        ("square_perimeter", &[8.0], 32.0),
        ("square_edge_by_area", &[49.0], 7.0),
        ("square_edge_by_perimeter", &[28.0], 7.0),
        ("rectangle_area", &[11.0, 7.5], 82.5),
        ("rectangle_perimeter", &[11.0, 7.5], 37.0),
        ("diagonal", &[3.0, 4.0], 5.0),
        ("rhombus_area", &[6.0, 8.0], 24.0),
        ("rhombus_perimeter", &[5.0], 20.0),
        ("quadrilateral_area", &[14.0, 18.0, 20.0], 266.0),
        ("triangle_area", &[44.0, 2.5], 55.0),
        ("triangle_area_three_edges", &[3.0, 4.0, 5.0], 6.0),
        ("triangle_perimeter", &[3.0, 4.0, 5.0], 12.0),
        ("circle_area", &[8.0], 201.061_929_829_746_76),
        ("circumface", &[1.0], std::f64::consts::TAU),
        ("circle_arc", &[1.0, 180.0], std::f64::consts::PI),
        ("semi_circle_perimiter", &[1.0], std::f64::consts::PI + 2.0),
        ("volume_cube", &[7.0], 343.0),
        ("cube_edge_by_volume", &[343.0], 7.0),
        ("surface_cube", &[2.0], 24.0),
        ("volume_rectangular_prism", &[8.0, 32.0, 18.0], 4608.0),
        ("surface_rectangular_prism", &[1.0, 2.0, 3.0], 22.0),
        ("volume_cylinder", &[1.273_239_544_735_162_8, 10.0], 50.929_581_789_406_51),
        ("surface_cylinder", &[1.0, 1.0], 4.0 * std::f64::consts::PI),
        ("volume_cone", &[1.0, 3.0], std::f64::consts::PI),
        ("volume_sphere", &[3.0], 36.0 * std::f64::consts::PI),
        ("surface_sphere", &[1.0], 4.0 * std::f64::consts::PI),
        ("speed", &[1000.0, 4.0], 250.0),
        ("stream_speed", &[12.0, 8.0], 2.0),
        ("speed_in_still_water", &[12.0, 8.0], 10.0),
        ("original_price_before_gain", &[25.0, 250.0], 200.0),
        ("original_price_before_loss", &[20.0, 80.0], 100.0),
        ("p_after_gain", &[25.0, 200.0], 250.0),
    ];

    #[test]
    fn every_operation_gives_the_result_of_its_case() {
        assert_eq!(CASES.len(), OPERATIONS.len());
        for (operation, (name, arguments, expected)) in OPERATIONS.iter().zip(CASES) {
            assert_eq!(operation.name, *name);
            let result = (operation.run)(arguments).unwrap();
            assert!(
                (result - expected).abs() <= expected.abs() * 1e-15,
                "{name}: {result} instead of {expected}"
            );
        }
    }
}
