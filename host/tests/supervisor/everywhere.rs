//! Every version of PostgreSQL, and every kind of login.

/// Makes of each `async fn test(place: Place)` a test for every version and every kind of login. PostgreSQL changed its
/// rules about who may give roles with 16: a login that makes them itself is tried on both sides of that, a superuser
/// and one that may do nothing on the newest. All others are long tests.
macro_rules! everywhere {
    ($($test:ident)*) => {$(
        mod $test {
            use $crate::everywhere::everywhere;
            everywhere!(@always $test 15 Owner pg15_owner);
            everywhere!(@always $test 18 Superuser pg18_superuser);
            everywhere!(@always $test 18 Owner pg18_owner);
            everywhere!(@always $test 18 Plain pg18_plain);
            everywhere!(@long $test 15 Superuser pg15_superuser);
            everywhere!(@long $test 15 Plain pg15_plain);
            everywhere!(@long $test 16 Superuser pg16_superuser);
            everywhere!(@long $test 16 Owner pg16_owner);
            everywhere!(@long $test 16 Plain pg16_plain);
            everywhere!(@long $test 17 Superuser pg17_superuser);
            everywhere!(@long $test 17 Owner pg17_owner);
            everywhere!(@long $test 17 Plain pg17_plain);
        }
    )*};
    (@always $($place:tt)*) => { $crate::everywhere::everywhere!(@one [] $($place)*); };
    (@long $($place:tt)*) => {
        $crate::everywhere::everywhere!(@one [ignore = "long: scripts/test --long"] $($place)*);
    };
    (@one [$($long:meta)?] $test:ident $major:literal $login:ident $name:ident) => {
        #[tokio::test]
        $(#[$long])?
        async fn $name() {
            if let Some(place) = $crate::database::Place::new($major, $crate::database::Login::$login) {
                super::$test(place).await;
            }
        }
    };
}
pub(crate) use everywhere;
