package main

import (
	"encoding/json"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// openRoute is the one route without an authorizer: the token of a callback, which is part of
// the path, is a credential that the function verifies (package callback).
const openRoute = "POST /v1/callbacks/{proxy+}"

// newAPI is an HTTP API that hands every request with a valid credential to the function, and
// callbacks, which bring their own.
func (s *stack) newAPI(function awslambda.Function) awsapigatewayv2.CfnApi {
	api := awsapigatewayv2.NewCfnApi(s.scope, jsii.String("Api"), &awsapigatewayv2.CfnApiProps{
		Name: s.scope.StackName(), ProtocolType: jsii.String("HTTP"),
	})
	integration := awsapigatewayv2.NewCfnIntegration(s.scope, jsii.String("ApiIntegration"), &awsapigatewayv2.CfnIntegrationProps{
		ApiId: api.Ref(), IntegrationType: jsii.String("AWS_PROXY"), IntegrationUri: function.FunctionArn(),
		PayloadFormatVersion: jsii.String("2.0"), TimeoutInMillis: jsii.Number(30_000),
	})
	route := &awsapigatewayv2.CfnRouteProps{
		ApiId: api.Ref(), RouteKey: jsii.String("ANY /{proxy+}"), Target: jsii.String("integrations/" + *integration.Ref()),
		AuthorizationType: jsii.String("AWS_IAM"),
	}
	if s.cfg.Auth == "jwt" {
		authorizer := awsapigatewayv2.NewCfnAuthorizer(s.scope, jsii.String("ApiAuthorizer"), &awsapigatewayv2.CfnAuthorizerProps{
			ApiId: api.Ref(), Name: jsii.String("jwt"), AuthorizerType: jsii.String("JWT"),
			IdentitySource:   jsii.Strings("$request.header.Authorization"),
			JwtConfiguration: &awsapigatewayv2.CfnAuthorizer_JWTConfigurationProperty{Issuer: &s.cfg.Issuer, Audience: jsii.Strings(s.cfg.Audience...)},
		})
		route.AuthorizationType, route.AuthorizerId = jsii.String("JWT"), authorizer.Ref()
	}
	awsapigatewayv2.NewCfnRoute(s.scope, jsii.String("ApiRoute"), route)
	awsapigatewayv2.NewCfnRoute(s.scope, jsii.String("ApiCallbackRoute"), &awsapigatewayv2.CfnRouteProps{
		ApiId: api.Ref(), RouteKey: jsii.String(openRoute), Target: route.Target, AuthorizationType: jsii.String("NONE"),
	})
	s.newAPIStage(api)
	awslambda.NewCfnPermission(s.scope, jsii.String("ApiPermission"), &awslambda.CfnPermissionProps{
		Action: jsii.String("lambda:InvokeFunction"), FunctionName: function.FunctionArn(), Principal: jsii.String("apigateway.amazonaws.com"),
		SourceArn: s.scope.FormatArn(&awscdk.ArnComponents{
			Service: jsii.String("execute-api"), Resource: api.Ref(), ResourceName: jsii.String("*/*"),
		}),
	})
	return api
}

// newAPIStage throttles the API and logs each request: who and which route, never a body or token.
func (s *stack) newAPIStage(api awsapigatewayv2.CfnApi) {
	logs := s.newLogGroup("ApiLogs")
	awsapigatewayv2.NewCfnStage(s.scope, jsii.String("ApiStage"), &awsapigatewayv2.CfnStageProps{
		ApiId: api.Ref(), StageName: jsii.String("$default"), AutoDeploy: jsii.Bool(true),
		DefaultRouteSettings: &awsapigatewayv2.CfnStage_RouteSettingsProperty{
			ThrottlingRateLimit: jsii.Number(s.cfg.Rate), ThrottlingBurstLimit: jsii.Number(s.cfg.Burst), DetailedMetricsEnabled: jsii.Bool(true),
		},
		AccessLogSettings: &awsapigatewayv2.CfnStage_AccessLogSettingsProperty{
			DestinationArn: s.scope.FormatArn(&awscdk.ArnComponents{
				Service: jsii.String("logs"), Resource: jsii.String("log-group"), ResourceName: logs.LogGroupName(),
				ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME,
			}),
			Format: jsii.String(accessLog()),
		},
	})
}

// accessLog is the format of the access log: one JSON object for each request. It has the
// route and not the path, since the token of a callback is part of that.
func accessLog() string {
	fields := map[string]string{}
	for name, variable := range map[string]string{
		"request_id": "requestId", "time": "requestTimeEpoch", "source_ip": "identity.sourceIp", "subject": "authorizer.claims.sub",
		"caller": "identity.caller", "method": "httpMethod", "route": "routeKey", "status": "status", "bytes": "responseLength", "latency_ms": "responseLatency",
		"authorizer_error": "authorizer.error", "integration_error": "integrationErrorMessage",
	} {
		fields[name] = "$context." + variable
	}
	// Texts alone always marshal.
	format, _ := json.Marshal(fields)
	return string(format)
}
