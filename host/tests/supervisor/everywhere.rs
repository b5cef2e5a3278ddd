//! Every version of PostgreSQL, and every kind of login.

/// Makes of each `async fn test(place: Place)` a test for every version and every kind of login.
macro_rules! everywhere {
    ($($test:ident)*) => {$(
        mod $test {
            $crate::everywhere::everywhere!(@at $test 15 pg15_superuser pg15_owner pg15_plain);
            $crate::everywhere::everywhere!(@at $test 16 pg16_superuser pg16_owner pg16_plain);
            $crate::everywhere::everywhere!(@at $test 17 pg17_superuser pg17_owner pg17_plain);
            $crate::everywhere::everywhere!(@at $test 18 pg18_superuser pg18_owner pg18_plain);
        }
    )*};
    (@at $test:ident $major:literal $superuser:ident $owner:ident $plain:ident) => {
        $crate::everywhere::everywhere!(@one $test $major Superuser $superuser);
        $crate::everywhere::everywhere!(@one $test $major Owner $owner);
        $crate::everywhere::everywhere!(@one $test $major Plain $plain);
    };
    (@one $test:ident $major:literal $login:ident $name:ident) => {
        #[tokio::test]
        async fn $name() {
            if let Some(place) = $crate::database::Place::new($major, $crate::database::Login::$login) {
                super::$test(place).await;
            }
        }
    };
}
pub(crate) use everywhere;
